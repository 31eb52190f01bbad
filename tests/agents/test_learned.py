"""The learned scorers and the picker, over scripted values."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scripted_values import Lengths, Sum

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.prompting import pick_prompt, propose_prompt, review_prompt, state_text
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer
from bestofq.agents.scorers.memory import MemoryScorer, WordScorer, experiences
from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Click, Other
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Proposal, State, Step, Verdict
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import CheckpointError, DataError, InputError
from bestofq.core.observation import Element, Observation, Screenshot, Task
from bestofq.learning.memory import FILE, Memory
from bestofq.store.codec import pack, unpack
from bestofq.testing.contracts import EPISODE

PAGE = Observation(
    url="/",
    title="Shop",
    text="Red [1] Blue [2]",
    elements=(Element(mark=1, role="link", name="Red"), Element(mark=2, role="link", name="Blue")),
    error="no such thing",
)
STATE = State(task=Task(id="t", suite="s", goal="a red one", start_url="/"), observation=PAGE)
CANDIDATES = tuple(
    Candidate(action=Click(mark=m), label=f"click link {name}", log_prob=log_prob, reply=f" r{m}\nclick [{m}]")
    for m, name, log_prob in ((1, "Red", -0.5), (2, "Blue", -3.0))
)


class Both:
    """A proposer of the two."""

    async def propose(self, state: State, n: int) -> Proposal:
        return Proposal(candidates=CANDIDATES)


async def test_q_scores_each_candidate_in_its_state() -> None:
    scores = await QScorer(Sum(), Lengths(), EmbeddingTexts()).score(STATE, CANDIDATES)
    base = len(state_text(STATE)) + len("a red one")
    assert scores.values == (base + len("click link Red"), base + len("click link Blue"))
    assert scores.state_value == base
    assert scores.usage[0].tokens_in == 7 * (2 + len(CANDIDATES))


@pytest.mark.parametrize(("model", "usd"), [("lengths", None), ("gpt-4.1", 2.0)])
async def test_q_costs_what_its_embedder_reads(model: str, usd: float | None) -> None:
    embedder = Lengths()
    embedder.spec = EmbedSpec(model=model, revision="1", dim=1)
    scorer = QScorer(Sum(), embedder, EmbeddingTexts())
    used = [*(await scorer.prepare(STATE)), *(await scorer.score(STATE, CANDIDATES)).usage]
    assert [one.tokens_in for one in used] == [7 * 2, 7 * 4]
    assert [one.usd for one in used] == [
        None if usd is None else pytest.approx(one.tokens_in * usd / 1e6) for one in used
    ]


async def test_the_screenshot_is_embedded_with_the_state_alone() -> None:
    shot = Screenshot(sha256="a" * 64, media_type="image/jpeg", width=8, height=8)
    seen = STATE.model_copy(update={"observation": PAGE.model_copy(update={"screenshot": shot})})
    texts = EmbeddingTexts(pictures=True)
    assert texts.state(seen) == EmbedItem(text=state_text(STATE), screenshots=(shot,))
    assert texts.state(seen).key != EmbeddingTexts().state(seen).key
    assert not texts.action(seen, CANDIDATES[0]).screenshots
    assert not texts.task(seen.task).screenshots
    with pytest.raises(DataError, match=r"task t has no screenshot.*screenshots=true"):
        texts.state(STATE)


async def test_the_prior_adds_log_probabilities() -> None:
    """By hand: -0.5 + q1/10 against -3 + q2/10, where q2 = q1 + 1."""
    scorer = QScorer(Sum(), Lengths(), EmbeddingTexts())
    q1, q2 = (await scorer.score(STATE, CANDIDATES)).values
    values = (await PriorScorer(scorer, beta=10).score(STATE, CANDIDATES)).values
    assert values == pytest.approx((-0.5 + q1 / 10, -3.0 + q2 / 10))
    assert values[0] > values[1]
    sharp = (await PriorScorer(scorer, beta=0.1).score(STATE, CANDIDATES)).values
    assert sharp[1] > sharp[0]


async def test_a_decision_names_the_checkpoint_that_scored() -> None:
    scorer = QScorer(Sum(), Lengths(), EmbeddingTexts(), checkpoint="value-1")
    for one, named in ((scorer, "value-1"), (PriorScorer(scorer, beta=1), "value-1"), (ConstantScorer(), None)):
        agent = Agent(name="a", proposer=Both(), scorer=one, selector=GreedySelector())
        decision = await agent.decide(STATE, np.random.default_rng(0))
        assert (decision.checkpoint, unpack(Decision, pack(decision)).checkpoint) == (named, named)


async def test_a_proposer_without_log_probabilities_is_refused() -> None:
    scorer = PriorScorer(QScorer(Sum(), Lengths(), EmbeddingTexts()), beta=1)
    with pytest.raises(InputError, match="log-probabilities"):
        await scorer.score(STATE, [CANDIDATES[0], CANDIDATES[1].model_copy(update={"log_prob": None})])


async def test_an_only_candidate_needs_no_log_probability() -> None:
    """Such as the wait that stands in for replies that could not be read: there is nothing to choose."""
    scorer = QScorer(Sum(), Lengths(), EmbeddingTexts())
    only = [CANDIDATES[0].model_copy(update={"log_prob": None})]
    [q] = (await scorer.score(STATE, only)).values
    assert (await PriorScorer(scorer, beta=10).score(STATE, only)).values == (pytest.approx(q / 10),)


def test_prompts_hold_goal_history_page_error_and_candidates() -> None:
    decision = Decision(candidates=CANDIDATES, scores=(0.0, 0.0), chosen=1)
    text = propose_prompt(STATE.model_copy(update={"decisions": (decision,)}))
    assert text == (
        "goal: a red one\ndid: click link Blue\npage:\nRed [1] Blue [2]\nerror: no such thing\ngoal: a red one\nnext:"
    )
    assert pick_prompt(STATE, CANDIDATES).endswith(
        "candidates:\n1. click link Red\n2. click link Blue\ngoal: a red one\nbest:"
    )


def test_an_action_is_embedded_alone_or_as_its_review() -> None:
    alone = EmbeddingTexts().action(STATE, CANDIDATES[0])
    assert alone == EmbedItem(text="click link Red")
    beside, page = EmbeddingTexts(matches=True), "goal: \npage:\nRed [1] Blue [2]\nerror: no such thing\n"
    matched = ("click link Red", "a red one")
    assert beside.action(STATE, CANDIDATES[0]) == EmbedItem(text="click link Red", matched=matched)
    assert beside.state(STATE) == EmbedItem(text=page, matched=(page, "a red one"))
    assert beside.task(STATE.task) == EmbedItem(text="a red one")
    reviewed = EmbeddingTexts("review")
    assert reviewed.action(STATE, CANDIDATES[0]).text == review_prompt(STATE, CANDIDATES[0])
    assert reviewed.state(STATE).text == propose_prompt(STATE)
    both = EmbeddingTexts("review", matches=True)
    assert both.action(STATE, CANDIDATES[0]).matched == matched
    assert both.state(STATE) == EmbedItem(text=propose_prompt(STATE), matched=(page, "a red one"))


def test_an_action_can_be_read_with_its_reasoning_and_a_state_without_its_page() -> None:
    """Best-of-Q, 3.1: actions are type and reasoning; states are task, history and screenshot."""
    thinking = CANDIDATES[0].model_copy(update={"thought": "It is red."})
    label = EmbeddingTexts().action(STATE, thinking).text
    assert EmbeddingTexts(reasoning=True).action(STATE, thinking).text == f"{label}\nIt is red."
    whole, bare = (EmbeddingTexts(page=page).state(STATE).text for page in (True, False))
    assert STATE.observation.text in whole
    assert STATE.observation.text not in bare
    assert STATE.task.goal in bare


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
    verdict = Verdict(reward=float(outcome == "success"), outcome=outcome)
    return EPISODE.model_copy(update={"task": seen.task, "steps": steps, "final": None, "verdict": verdict})


def learn(*episodes: Episode) -> Memory:
    return Memory.learn(experiences(episodes), train_n=3)


async def values(by: Memory | WordScorer, seen: State, *labels: str) -> Sequence[float]:
    scorer = MemoryScorer(by) if isinstance(by, Memory) else by
    return (await scorer.score(seen, candidates(*labels))).values


async def test_what_succeeded_is_worth_more_in_the_same_task_and_in_others() -> None:
    memory = learn(
        *[episode("success", "click button Pay by card")] * 4,
        *[episode("failure", "click button Pay by invoice")] * 4,
        *[episode("infra_error", "click button Pay by invoice")] * 40,
    )
    for goal in (GOAL, "a green lamp"):
        card, invoice = await values(memory, state(goal), "click button Pay by card", "click button Pay by invoice")
        assert 0 <= invoice < 0.5 < card <= 1


async def test_the_goals_words_carry_over_to_another_goal() -> None:
    memory = learn(
        *[episode("success", "click link $20 brass chair")] * 3,
        *[episode("failure", "click link $40 brass chair")] * 3,
        *[episode("failure", "click link $20 oak table")] * 3,
    )
    lamp = state("a green lamp below 50 dollars")
    offered = ("click link $45 green lamp", "click link $55 green lamp", "click link $45 red shelf")
    right, dear, other = await values(memory, lamp, *offered)
    assert right > max(dear, other)


async def test_more_outcomes_move_a_value_further() -> None:
    few, many = (learn(*[episode("failure", "click a b")] * 9, *[episode("success", "click x y")] * n) for n in (1, 9))
    one, more = [(await values(memory, state(), "click x y"))[0] for memory in (few, many)]
    assert one < more


async def test_an_action_is_worth_what_a_good_choice_makes_of_it() -> None:
    """The exploring agent mostly failed after `click open`, by another action than the one that succeeds."""
    memory = learn(
        *[episode("failure", "click open", "click wrong")] * 12,
        *[episode("success", "click open", "click right")] * 4,
        *[episode("success", "click wait", "click right")],
        *[episode("failure", "click wait", "click wait")] * 3,
    )
    opening, waiting = await values(memory, state(), "click open", "click wait")
    assert opening > waiting


async def test_without_anything_known_the_prior_or_the_mean_is_the_value() -> None:
    memory = learn(episode("success", "click x"), episode("failure", "click y"))
    assert memory.recall(["unknown"]) == 0.5
    assert memory.recall(["unknown"], prior=0.8) == 0.8


async def test_words_prefer_what_the_goal_names_and_allows() -> None:
    offered = ("click link $20 brass lamp", "click link $29 brass chair", "click back")
    chosen = await values(WordScorer(), state(), *offered)
    assert chosen[1] > chosen[0] > chosen[2] == 0
    assert (await values(WordScorer(), state(), "click link $31 brass chair"))[0] == 0


def test_a_saved_memory_is_the_same(tmp_path: Path) -> None:
    memory = learn(episode("success", "click x", "click y"), episode("failure", "click y"))
    memory.save(tmp_path)
    again = Memory.load(tmp_path)
    assert again == memory
    assert again.checkpoint == memory.checkpoint != learn(episode("failure", "click y")).checkpoint


def test_a_damaged_or_missing_memory_is_refused(tmp_path: Path) -> None:
    learn(episode("success", "click x")).save(tmp_path)
    path = tmp_path / FILE
    whole = path.read_bytes()
    for damage in (b"", b"{", whole[:-1] + bytes([whole[-1] ^ 1])):  # the last: another count
        path.write_bytes(damage)
        with pytest.raises(CheckpointError):
            Memory.load(tmp_path)
    path.unlink()
    with pytest.raises(CheckpointError):
        Memory.load(tmp_path)


def test_a_memory_of_other_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("bestofq.learning.memory.KEYS", 1)
        learn(episode("success", "click x")).save(tmp_path)
    with pytest.raises(CheckpointError):
        Memory.load(tmp_path)
