"""What a model's draws become: distinct actions, or an error that says what they were and what they took."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from test_composite_chat import endpoint, said

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.proposers import ChatProposer, SamplingProposer
from bestofq.agents.scorers.constant import VoteScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Click
from bestofq.core.decision import State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request
from bestofq.core.observation import Element, Observation, Task
from bestofq.core.seeds import step_seed
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedModel

SHELF = Observation(
    url="http://shop/",
    title="Shop",
    text="Red mug\nAdd to cart [1]\nBlue mug\nAdd to cart [2]",
    elements=tuple(Element(mark=mark, role="button", name="Add to cart") for mark in (1, 2)),
)
STATE = State(task=Task(id="t", suite="s", goal="a blue mug", start_url="/", seed=5), observation=SHELF, seed=9)
BOTH = [Click(mark=1), Click(mark=2)]


async def test_two_buttons_with_the_same_words_are_two_candidates() -> None:
    def replies(_: Request) -> Sequence[str]:
        return ["click [1]", "click [2]", "again\nclick [1]"]

    drawn = await SamplingProposer(ScriptedModel(replies), samples_per_candidate=1).propose(STATE, 3)
    assert [candidate.action for candidate in drawn.candidates] == BOTH
    assert [candidate.votes for candidate in drawn.candidates] == [2, None]
    assert drawn.candidates[0].label == drawn.candidates[1].label == "click button Add to cart"
    marks = iter([1, 2, 1])
    async with FaultServer(lambda _: said(f"CLICK [{next(marks)}]")) as server, endpoint(server) as model:
        chosen = await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 3)
    assert [candidate.action for candidate in chosen.candidates] == BOTH


async def test_a_vote_takes_what_most_replies_gave_and_the_first_of_equals() -> None:
    agent = Agent(
        name="vote",
        proposer=SamplingProposer(ScriptedModel(lambda _: ["click [1]", "click [2]", "why not\nclick [2]"])),
        scorer=VoteScorer(),
        selector=GreedySelector(),
        n_candidates=3,
    )
    decision = await agent.decide(STATE, np.random.default_rng(0))
    assert (decision.chosen, decision.scores) == (1, (1.0, 2.0))
    even = replace(agent, proposer=SamplingProposer(ScriptedModel(lambda _: ["click [1]", "click [2]"])))
    assert (await even.decide(STATE, np.random.default_rng(0))).chosen == 0


async def test_draws_that_are_no_action_are_told_with_what_they_took() -> None:
    replies = ["hello", "click [7]", "fly"]
    with pytest.raises(ReplyError) as error:
        await SamplingProposer(ScriptedModel(lambda _: replies), samples_per_candidate=1).propose(STATE, 3)
    assert error.value.replies == tuple(replies)
    (used,) = error.value.usage
    assert (used.role, used.calls, used.tokens_out) == ("proposer", 1, len("".join(replies)))
    assert used.tokens_in > 0


async def test_draws_come_from_the_step_s_seed_and_not_from_the_task_s() -> None:
    asked: list[Request] = []

    def noting(request: Request) -> Sequence[str]:
        asked.append(request)
        return ["click [1]"]

    await SamplingProposer(ScriptedModel(noting)).propose(STATE, 1)
    async with FaultServer(lambda _: said("CLICK [1]")) as server, endpoint(server) as model:
        await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 1)
    assert (asked[0].seed, server.requests[0]["seed"]) == (step_seed(9, 0), step_seed(9, 0) % 2**31)
