import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import QScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Located, Proposal, Scores, State
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ModelError, ReplyError
from bestofq.core.observation import Element, Observation, Point, Task
from bestofq.core.protocols import Scorer, Selector
from bestofq.core.transitions import Floats
from bestofq.core.usage import Usage, merge_usage
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.testing.scripted import ScriptedProposer, ScriptedScorer

LINKS = tuple(Element(mark=mark, role="link", name=f"link {mark}") for mark in (1, 2, 3))
PAGE = Observation(url="http://shop/", title="Shop", text="", elements=LINKS)
STATE = State(task=Task(id="t", suite="s", goal="g", start_url="u"), observation=PAGE)
SCORES = np.array([0.1, 0.9, 0.9], dtype=np.float32)
THREE = ScriptedProposer([["click [1]", "click [2]", "click [3]"]])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("selector", "scores", "shares"),
    [
        (GreedySelector(), SCORES, {(1, False): 1.0}),
        (UniformSelector(), SCORES, {(0, False): 1 / 3, (1, True): 1 / 3, (2, True): 1 / 3}),
        (EpsilonGreedySelector(0.4), SCORES, {(0, False): 0.6, (1, True): 0.2, (2, True): 0.2}),
        (EpsilonGreedySelector(1.0), SCORES[:1], {(0, False): 1.0}),
    ],
)
def test_greedy_takes_the_first_of_the_best_uniform_any_and_epsilon_greedy_the_first_or_one_of_the_others(
    selector: Selector, scores: np.ndarray, shares: dict[tuple[int, bool], float]
) -> None:
    dice, times = rng(), 6000
    choices = (selector.select(scores, dice) for _ in range(times))
    counts = Counter((choice.index, choice.explored) for choice in choices)
    assert {pick: count / times for pick, count in counts.items()} == pytest.approx(shares, abs=0.03)


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


async def test_no_candidate_is_named() -> None:
    class Nothing:
        async def propose(self, state: State, n: int) -> Proposal:
            return Proposal(candidates=())

    empty = Agent(name="empty", proposer=Nothing(), scorer=ConstantScorer(), selector=GreedySelector())
    with pytest.raises(ReplyError, match="the proposer of empty offered no action"):
        await empty.decide(STATE, rng())


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([0.1, 0.2, 0.3], ConfigError, "the scorer of mine gave a list: it must give bestofq.Scores"),
        (Scores(values=(0.1, 0.2)), ConfigError, "the scorer of mine gave 2 scores for 3 candidates"),
        (Scores(values=(0.0, float("nan"), 0.0)), ModelError, "the scorer of mine gave NaN"),
    ],
)
async def test_what_is_not_one_score_each_is_named(given: Scores, error: type[Exception], said: str) -> None:
    class Mine:
        async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
            return given

    with pytest.raises(error, match=said):
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


class Slow(CachedEmbedder):
    """Takes `seconds` for each call; a vector is the length of its text, a token each."""

    def __init__(self, seconds: float = 0.0, broken: str = "") -> None:
        super().__init__(EmbedSpec(model="slow", revision="1", dim=1), batch=64)
        self.seconds, self.broken = seconds, broken
        self.calls: list[list[str]] = []

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        time.sleep(self.seconds)
        self.calls.append([item.text for item in items])
        if self.broken:
            raise ModelError(self.broken)
        return [Vector(np.array([len(item.text)], np.float32), len(item.text)) for item in items]


class Ten:
    """Q is ten times the action's number, V the state's."""

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        return 10 * action[..., 0]

    def v(self, state: Floats, task: Floats) -> Floats:
        return state[..., 0]


@dataclass
class Thinker:
    """Proposes three links after `seconds`, or fails; remembers whether it was stopped."""

    seconds: float
    error: Exception | None = None
    stopped: list[bool] = field(default_factory=list)

    async def propose(self, state: State, n: int) -> Proposal:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.stopped.append(True)
            raise
        if self.error:
            raise self.error
        return await THREE.propose(state, n)


def agent(proposer: Thinker | ScriptedProposer, scorer: Scorer) -> Agent:
    return Agent(name="a", proposer=proposer, scorer=scorer, selector=GreedySelector())


async def test_state_and_task_are_embedded_while_the_proposer_thinks() -> None:
    slow, thinker = Slow(), Thinker(0)

    async def think(state: State, n: int) -> Proposal:
        async with asyncio.timeout(10):
            while not slow.calls:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return await THREE.propose(state, n)

    thinker.propose = think  # type: ignore[method-assign]
    decision = await agent(thinker, QScorer(Ten(), slow, EmbeddingTexts())).decide(STATE, rng())
    before, after = slow.calls
    assert [len(before), len(after)] == [2, 3]
    assert decision.scores == (170.0, 170.0, 170.0)
    assert decision.state_value == len(before[0])
    proposer, embedder = decision.usage
    assert (proposer.role, embedder.role) == ("proposer", "embedder")
    assert embedder.tokens_in == sum(map(len, (*before, *after)))


async def test_a_proposer_faster_than_the_embedder_waits_for_it_and_nothing_is_embedded_twice() -> None:
    slow = Slow(0.05)
    await agent(THREE, QScorer(Ten(), slow, EmbeddingTexts())).decide(STATE, rng())
    texts = [text for call in slow.calls for text in call]
    assert len(texts) == len(set(texts)) == 5


async def test_what_two_episodes_want_at_once_is_embedded_once_and_survives_the_end_of_one() -> None:
    slow = Slow(0.1)
    item = EmbedItem(text="shared")
    first = asyncio.create_task(slow.embed([item]))
    second = asyncio.create_task(slow.embed([item]))
    await asyncio.sleep(0.02)
    first.cancel()
    assert (await second)[0].tolist() == [[6.0]]
    assert slow.calls == [["shared"]]


async def test_an_error_of_one_keeps_what_the_other_used() -> None:
    slow = Slow()
    with pytest.raises(ModelError, match="no reply") as error:
        await agent(Thinker(0.2, ModelError("no reply")), QScorer(Ten(), slow, EmbeddingTexts())).decide(STATE, rng())
    (used,) = error.value.usage
    assert (used.role, used.tokens_in) == ("embedder", sum(map(len, slow.calls[0])))
    broken = Slow(0.1, broken="out of memory")
    with pytest.raises(ModelError, match="out of memory") as error:
        await agent(Thinker(0), QScorer(Ten(), broken, EmbeddingTexts())).decide(STATE, rng())
    assert error.value.usage == (await THREE.propose(STATE, 3)).usage != ()


async def test_a_step_that_is_stopped_stops_both() -> None:
    thinker = Thinker(30)
    step = asyncio.create_task(agent(thinker, QScorer(Ten(), Slow(), EmbeddingTexts())).decide(STATE, rng()))
    await asyncio.sleep(0.05)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert thinker.stopped == [True]


async def test_what_was_embedded_for_a_proposal_without_an_action_is_paid_for() -> None:
    slow = Slow(0.05)
    failed = Thinker(0, ReplyError("said nothing", usage=(Usage(role="proposer", calls=1, tokens_in=9),)))
    with pytest.raises(ReplyError) as error:
        await agent(failed, QScorer(Ten(), slow, EmbeddingTexts())).decide(STATE, rng())
    embedded = sum(len(text) for call in slow.calls for text in call)
    assert {used.role: used.tokens_in for used in error.value.usage} == {"proposer": 9, "embedder": embedded}
    assert embedded > 0
