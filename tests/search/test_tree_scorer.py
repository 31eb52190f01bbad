"""Search at inference: a scorer like any other."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from branch_world import TASK, BranchEnv, RestoringEnv, both_doors

from bestofq.agents.agent import Agent
from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Scores, State, Step
from bestofq.core.protocols import Proposer, Scorer
from bestofq.rollouts.episode import EpisodeOptions, record_episode
from bestofq.rollouts.resuming import claim_orphans
from bestofq.search.config import SearchConfig
from bestofq.search.tree_scorer import FoundProposer, TreeScorer
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer

REWARDS = {"2121": 1.0}


def world(
    *,
    stop_at_success: bool = False,
    ranker: Scorer | None = None,
    doors: Callable[[State, int], Sequence[str]] = both_doors,
) -> tuple[TreeScorer, list[str]]:
    steps: list[str] = []

    async def make_env() -> RestoringEnv:
        return RestoringEnv(REWARDS, depth=4, steps=steps)

    config = SearchConfig(iterations=30, candidates=2, stop_at_success=stop_at_success)
    proposer = ScriptedProposer(doors)
    return TreeScorer(make_env, proposer=proposer, ranker=ranker, config=config, depth=4), steps


async def play(scorer: TreeScorer, proposer: Proposer | None = None) -> tuple[str, list[Decision]]:
    agent = Agent(
        name="mcts",
        proposer=proposer or ScriptedProposer(both_doors),
        scorer=scorer,
        selector=GreedySelector(),
        n_candidates=2,
    )
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    observation = await env.reset(TASK, seed=0)
    decisions: list[Decision] = []
    while len(decisions) < 4:
        state = State(task=TASK, decisions=tuple(decisions), observation=observation)
        decisions.append(await agent.decide(state, np.random.default_rng(0)))
        observation = (await env.step(decisions[-1].candidate.action)).observation
    return env.way, decisions


async def test_an_agent_that_searches_finds_the_way_that_its_proposer_would_not() -> None:
    scorer, steps = world()
    way, decisions = await play(scorer)
    assert way == "2121"
    assert len(steps) == len(set(steps))  # one tree for the whole episode
    assert [d.chosen for d in decisions] == [1, 0, 1, 0]
    assert all(0 <= score <= 1.001 for d in decisions for score in d.scores)
    assert (decisions[-1].state_value or 0.0) > 0.5
    await scorer.aclose()


async def test_a_decision_keeps_what_its_search_knew_of_each_candidate() -> None:
    class Learned:
        async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
            return Scores(values=(0.5,) * len(candidates), checkpoint="value-1")

    scorer, _ = world(ranker=Learned())
    _, decisions = await play(scorer)
    assert {decision.checkpoint for decision in decisions} == {"value-1"}
    assert {decision.feedback for decision in decisions} == {(0.5, 0.5)}
    for decision in decisions:
        assert decision.visits[decision.chosen] > 0
    await scorer.aclose()
    plain, _ = world()
    (first, *_) = (await play(plain))[1]
    assert (first.checkpoint, first.feedback) == (None, None)
    assert first.visits is not None
    await plain.aclose()


async def test_an_agent_follows_what_its_search_found_without_asking_the_model_again() -> None:
    scorer, steps = world(stop_at_success=True)
    asked: list[int] = []

    def doors(state: State, n: int) -> Sequence[str]:
        asked.append(len(state.decisions))
        return both_doors(state, n)

    way, decisions = await play(scorer, FoundProposer(scorer, ScriptedProposer(doors)))
    assert way == "2121"
    assert asked == [0]
    assert steps.index("2121") == len(steps) - 1  # nothing was searched after the success
    assert all(d.candidates[d.chosen].action == Click(mark=int(mark)) for d, mark in zip(decisions, way, strict=True))
    await scorer.aclose()


async def test_an_agent_chooses_among_what_its_search_has_tried_whatever_else_the_model_would_draw() -> None:
    asked: list[int] = []

    def second_draw(state: State, _n: int) -> Sequence[str]:
        asked.append(len(state.decisions))
        return ["click [2]"] if state.decisions else both_doors(state, 2)

    scorer, _ = world()
    way, decisions = await play(scorer, FoundProposer(scorer, ScriptedProposer(second_draw)))
    assert way == "2121"
    assert asked == [0]
    assert [len(decision.candidates) for decision in decisions] == [2] * 4
    await scorer.aclose()


async def test_a_candidate_that_the_tree_has_not_is_tried_too() -> None:
    scorer, _ = world(doors=lambda _state, _n: ["click [1]"])
    _, decisions = await play(scorer)
    assert [min(decision.visits or [0]) > 0 for decision in decisions[:3]] == [True] * 3
    await scorer.aclose()


async def test_on_a_page_with_other_numbers_the_model_is_asked_again() -> None:
    scorer, _ = world()
    _, decisions = await play(scorer)
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    await env.reset(TASK, seed=0)
    behind = (await env.step(decisions[0].candidate.action)).observation
    swapped = tuple(door.model_copy(update={"mark": 3 - door.mark}) for door in behind.elements)
    state = State(task=TASK, decisions=tuple(decisions[:1]), observation=behind)
    assert len(scorer.found(state, 2)) == 2
    elsewhere = behind.model_copy(update={"elements": swapped})
    assert scorer.found(state.model_copy(update={"observation": elsewhere}), 2) == ()
    await scorer.aclose()


async def test_where_the_search_cannot_come_to_the_agents_page_nothing_is_claimed() -> None:
    scorer, steps = world()
    proposer = ScriptedProposer(both_doors)
    env = RestoringEnv(REWARDS, depth=4, steps=[])
    observation = (await env.reset(TASK, seed=0)).model_copy(update={"url": "branch://elsewhere"})
    state = State(task=TASK, observation=observation)
    scores = await scorer.score(state, (await proposer.propose(state, 2)).candidates)
    assert scores.values == (0.0, 0.0)
    assert scores.state_value == 0.0
    assert steps == []
    await scorer.aclose()


class Died(Exception):
    """As a kill leaves it: nothing is caught, nothing tidied."""


async def searched(
    store: Store, begun: Episode | None = None, dies_after: int | None = None, made: list[BranchEnv] | None = None
) -> Episode:
    """An episode by search, in environments that cannot be put back; `made`: takes these."""
    made = [] if made is None else made

    async def make_env() -> BranchEnv:
        made.append(BranchEnv(REWARDS, depth=4, steps=[]))
        return made[-1]

    def stepped(step: Step) -> None:
        if step.index + 1 == dies_after:
            raise Died

    proposer = ScriptedProposer(both_doors)
    config = SearchConfig(iterations=30, candidates=2)
    scorer = TreeScorer(make_env, proposer=proposer, ranker=None, config=config, depth=4)
    agent = Agent(name="mcts", proposer=proposer, scorer=scorer, n_candidates=2)
    options = EpisodeOptions(on_step=stepped)
    return await record_episode(agent, await make_env(), TASK, store=store, run="r", options=options, begun=begun)


async def test_once_an_episode_has_ended_what_it_was_searched_in_is_closed(tmp_path: Path) -> None:
    made: list[BranchEnv] = []
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        await searched(store, made=made)
    played, *others = made
    assert (played.way, {env.way for env in others}) == ("2121", {"closed"})


async def test_an_episode_that_goes_on_in_another_process_is_searched_from_its_page(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        with pytest.raises(Died):
            await searched(store, dies_after=2)
        [begun] = (await claim_orphans(store, "r", "mcts", lambda _: True, lambda *_: True)).values()
        ended = await searched(store, begun)
        assert (ended.id, ended.verdict.reward) == (begun.id, 1.0)
        assert [step.decision.chosen for step in ended.steps] == [1, 0, 1, 0]
        assert ended.steps[:2] == begun.steps
