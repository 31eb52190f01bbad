"""The state is embedded while the proposer is thinking."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from test_deciding import STATE, THREE, rng

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.learned import QScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import Proposal, State
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ModelError, ReplyError
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats
from bestofq.core.usage import Usage
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.testing.scripted import ScriptedProposer


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

    def prepare(self, state: Floats, task: Floats) -> None: ...


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


async def test_an_error_of_one_stops_the_other_and_keeps_what_both_used() -> None:
    slow, no_reply = Slow(), ModelError("no reply")
    with pytest.raises(ModelError, match="no reply") as error:
        await agent(Thinker(0.2, no_reply), QScorer(Ten(), slow, EmbeddingTexts())).decide(STATE, rng())
    (used,) = error.value.usage
    assert (used.role, used.tokens_in) == ("embedder", sum(map(len, slow.calls[0])))
    with pytest.raises(ModelError, match="no reply"):
        await agent(Thinker(0, no_reply), QScorer(Ten(), Slow(0.05), EmbeddingTexts())).decide(STATE, rng())
    assert not [task for task in asyncio.all_tasks() if "prepare" in repr(task.get_coro())]
    broken = Slow(0.1, broken="out of memory")
    with pytest.raises(ModelError) as error:
        await agent(Thinker(0), QScorer(Ten(), broken, EmbeddingTexts())).decide(STATE, rng())
    assert error.value.usage == (await THREE.propose(STATE, 3)).usage != ()
    thinker = Thinker(30)
    with pytest.raises(ModelError, match="out of memory"):
        await agent(thinker, QScorer(Ten(), Slow(broken="out of memory"), EmbeddingTexts())).decide(STATE, rng())
    assert thinker.stopped == [True]


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
