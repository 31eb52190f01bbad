"""Outcomes remembered by what was done, and the rule about words."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bestofq.agents.scorers.memory import MemoryScorer, WordScorer, experiences
from bestofq.core.actions import Other
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Provenance, State, Step, Verdict
from bestofq.core.errors import CheckpointError
from bestofq.core.observation import Observation, Task
from bestofq.learning.memory import FILE, Memory

GOAL = "buy a brass chair below 30 dollars"


def candidates(*labels: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(action=Other(text=label), label=label) for label in labels)


def state(goal: str = GOAL, title: str = "Shop: item") -> State:
    task = Task(id=goal, suite="t", goal=goal, start_url="/")
    return State(task=task, observation=Observation(url="/", title=title, text="a page", elements=()))


def episode(outcome: Outcome, *taken: str, goal: str = GOAL) -> Episode:
    """An episode that took the first of two actions at each step."""
    seen = state(goal)
    decisions = (Decision(candidates=candidates(one, "click wait"), scores=(0, 0), chosen=0) for one in taken)
    steps = tuple(Step(index=i, observation=seen.observation, decision=one) for i, one in enumerate(decisions))
    reward = float(outcome == "success")
    return Episode(
        id="e", run="r", agent="explore", task=seen.task, steps=steps, verdict=Verdict(reward=reward, outcome=outcome),
        provenance=Provenance(version="0"),
    )  # fmt: skip


def learn(*episodes: Episode) -> Memory:
    return Memory.learn(experiences(episodes), train_n=3)


async def values(scorer: MemoryScorer | WordScorer, seen: State, *labels: str) -> Sequence[float]:
    return (await scorer.score(seen, candidates(*labels))).values


async def test_what_succeeded_is_worth_more_in_the_same_task_and_in_others() -> None:
    scorer = MemoryScorer(
        learn(
            *[episode("success", "click button Pay by card")] * 4,
            *[episode("failure", "click button Pay by invoice")] * 4,
            *[episode("infra_error", "click button Pay by invoice")] * 40,
        )
    )
    for goal in (GOAL, "a green lamp"):
        card, invoice = await values(scorer, state(goal), "click button Pay by card", "click button Pay by invoice")
        assert 0 <= invoice < 0.5 < card <= 1


async def test_the_goals_words_carry_over_to_another_goal() -> None:
    scorer = MemoryScorer(
        learn(
            *[episode("success", "click link $20 brass chair")] * 3,
            *[episode("failure", "click link $40 brass chair")] * 3,
            *[episode("failure", "click link $20 oak table")] * 3,
        )
    )
    lamp = state("a green lamp below 50 dollars")
    right, dear, other = await values(
        scorer, lamp, "click link $45 green lamp", "click link $55 green lamp", "click link $45 red shelf"
    )
    assert right > max(dear, other)


async def test_more_outcomes_move_a_value_further() -> None:
    few, many = (learn(*[episode("failure", "click a b")] * 9, *[episode("success", "click x y")] * n) for n in (1, 9))
    one, more = [(await values(MemoryScorer(memory), state(), "click x y"))[0] for memory in (few, many)]
    assert one < more


async def test_an_action_is_worth_what_a_good_choice_makes_of_it() -> None:
    """The exploring agent mostly failed after `click open`, by another action than the one that succeeds."""
    scorer = MemoryScorer(
        learn(
            *[episode("failure", "click open", "click wrong")] * 12,
            *[episode("success", "click open", "click right")] * 4,
            *[episode("success", "click wait", "click right")],
            *[episode("failure", "click wait", "click wait")] * 3,
        )
    )
    opening, waiting = await values(scorer, state(), "click open", "click wait")
    assert opening > waiting


async def test_without_anything_known_the_prior_or_the_mean_is_the_value() -> None:
    memory = learn(episode("success", "click x"), episode("failure", "click y"))
    assert memory.recall(["unknown"]) == 0.5
    assert memory.recall(["unknown"], prior=0.8) == 0.8


async def test_words_prefer_what_the_goal_names_and_allows() -> None:
    chosen = await values(
        WordScorer(), state(), "click link $20 brass lamp", "click link $29 brass chair", "click back"
    )
    assert chosen[1] > chosen[0] > chosen[2] == 0
    assert (await values(WordScorer(), state(), "click link $31 brass chair"))[0] == 0


def test_a_saved_memory_is_the_same(tmp_path: Path) -> None:
    memory = learn(episode("success", "click x", "click y"), episode("failure", "click y"))
    memory.save(tmp_path)
    again = Memory.load(tmp_path)
    assert again == memory
    assert again.checkpoint == memory.checkpoint != learn(episode("failure", "click y")).checkpoint


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_a_damaged_or_missing_memory_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    learn(episode("success", "click x")).save(tmp_path)
    path = tmp_path / FILE
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with pytest.raises(CheckpointError):
        Memory.load(tmp_path)


def test_a_changed_count_is_refused(tmp_path: Path) -> None:
    learn(episode("success", "click x")).save(tmp_path)
    path = tmp_path / FILE
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        Memory.load(tmp_path)
