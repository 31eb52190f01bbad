from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Located, Proposal, Scores, State
from bestofq.core.errors import ConfigError, ModelError, ReplyError
from bestofq.core.observation import Element, Observation, Point, Task
from bestofq.core.protocols import Selector
from bestofq.core.usage import Usage, merge_usage
from bestofq.testing.scripted import ScriptedProposer, ScriptedScorer

LINKS = tuple(Element(mark=mark, role="link", name=f"link {mark}") for mark in (1, 2, 3))
PAGE = Observation(url="http://shop/", title="Shop", text="", elements=LINKS)
STATE = State(task=Task(id="t", suite="s", goal="g", start_url="u"), observation=PAGE)
SCORES = np.array([0.1, 0.9, 0.9], dtype=np.float32)
THREE = ScriptedProposer([["click [1]", "click [2]", "click [3]"]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def picks(selector: Selector, scores: np.ndarray, times: int = 6000) -> dict[tuple[int, bool], float]:
    dice = rng()
    choices = (selector.select(scores, dice) for _ in range(times))
    return {pick: n / times for pick, n in Counter((c.index, c.explored) for c in choices).items()}


def test_greedy_takes_the_first_of_the_best() -> None:
    assert picks(GreedySelector(), SCORES, 5) == {(1, False): 1.0}


def test_uniform_takes_any() -> None:
    found = picks(UniformSelector(), SCORES)
    assert found == pytest.approx({(0, False): 1 / 3, (1, True): 1 / 3, (2, True): 1 / 3}, abs=0.03)


def test_epsilon_greedy_takes_the_first_or_one_of_the_others() -> None:
    found = picks(EpsilonGreedySelector(0.4), SCORES)
    assert found == pytest.approx({(0, False): 0.6, (1, True): 0.2, (2, True): 0.2}, abs=0.03)
    assert picks(EpsilonGreedySelector(1.0), SCORES[:1], 5) == {(0, False): 1.0}
    with pytest.raises(ConfigError, match=r"epsilon is 1\.5"):
        EpsilonGreedySelector(1.5)


async def test_a_decision_keeps_all_candidates_scores_and_usage() -> None:
    def by_mark(_state: State, candidates: Sequence[Candidate]) -> list[float]:
        return [float(candidate.label[-1]) for candidate in candidates]

    agent = Agent(name="a", proposer=THREE, scorer=ScriptedScorer(by_mark), selector=GreedySelector())
    decision = await agent.decide(STATE, rng())
    assert [candidate.label for candidate in decision.candidates] == [f"click link link {n}" for n in (1, 2, 3)]
    assert decision.scores == (1.0, 2.0, 3.0)
    assert decision.scorer == "ScriptedScorer"
    assert decision.candidate.action == Click(mark=3)
    assert [usage.role for usage in decision.usage] == ["proposer", "critic"]


async def test_no_candidate_and_nan_are_named() -> None:
    class Nothing:
        async def propose(self, state: State, n: int) -> Proposal:
            return Proposal(candidates=())

    def nan(_state: State, candidates: Sequence[Candidate]) -> list[float]:
        return [0.0, float("nan"), 0.0]

    empty = Agent(name="empty", proposer=Nothing(), scorer=ConstantScorer(), selector=GreedySelector())
    with pytest.raises(ReplyError, match="the proposer of empty offered no action"):
        await empty.decide(STATE, rng())
    broken = Agent(name="broken", proposer=THREE, scorer=ScriptedScorer(nan), selector=GreedySelector())
    with pytest.raises(ModelError, match="the scorer of broken gave NaN"):
        await broken.decide(STATE, rng())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([0.1, 0.2, 0.3], "the scorer of mine gave a list: it must give bestofq.Scores"),
        (Scores(values=(0.1, 0.2)), "the scorer of mine gave 2 scores for 3 candidates"),
    ],
)
async def test_what_is_not_one_score_each_is_named(given: Scores, said: str) -> None:
    class Mine:
        async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
            return given

    with pytest.raises(ConfigError, match=said):
        await Agent(name="mine", proposer=THREE, scorer=Mine()).decide(STATE, rng())


async def test_words_become_a_point_for_the_chosen_one_only() -> None:
    class Finder:
        async def locate(self, observation: Observation, target: str) -> Located:
            return Located(point=Point(len(target), 7.0), usage=(Usage(role="localizer", calls=1, tokens_in=9),))

    class Describer:
        async def propose(self, state: State, n: int) -> Proposal:
            words = ("the red kettle", "the blue one")
            return Proposal(candidates=tuple(Candidate(action=Click(target=w), label=f"click {w}") for w in words))

    agent = Agent(
        name="l", proposer=Describer(), scorer=ConstantScorer(), selector=GreedySelector(), localizer=Finder()
    )
    decision = await agent.decide(STATE, rng())
    assert decision.candidate.action == Click(target="the red kettle", point=Point(14.0, 7.0))
    assert decision.candidate.label == "click the red kettle"
    assert decision.candidates[1].action == Click(target="the blue one")
    assert decision.usage == (Usage(role="localizer", calls=1, tokens_in=9),)


def test_usage_is_added_by_role_and_an_unknown_price_stays_unknown() -> None:
    merged = merge_usage(
        [
            Usage(role="proposer", tokens_in=5, calls=1, usd=0.1),
            Usage(role="critic", tokens_in=1, unusable=2, usd=0.2),
            Usage(role="proposer", tokens_in=7, calls=1),
            Usage(role="critic", tokens_out=2, unusable=1, usd=0.3),
        ]
    )
    assert merged == (
        Usage(role="proposer", tokens_in=12, calls=2),
        Usage(role="critic", tokens_in=1, tokens_out=2, unusable=3, usd=0.5),
    )
