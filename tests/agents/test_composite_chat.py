"""Agent Q's composite actions from a chat endpoint, over real HTTP on loopback."""

import json

import pytest
from broken_server import BrokenServer

from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.proposers import ChatProposer, SamplingProposer
from bestofq.config.agents import make_proposer
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.actions import Answer, Click, Write
from bestofq.core.decision import Decision, State
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Element, Observation, Screenshot, Task
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.testing.fault_server import FaultServer

PAGE = Observation(
    url="http://tables/",
    title="Tables",
    text="City [1]\nFind a table [2]",
    elements=(Element(mark=1, role="textbox", name="City"), Element(mark=2, role="button", name="Find a table")),
)
STATE = State(task=Task(id="t", suite="s", goal="a table for 2", start_url="http://tables/", seed=5), observation=PAGE)
COMMANDS = ("CLICK [", "TYPE [", "SUBMIT [", "CLEAR [", "SCROLL ", "GOTO ", "ASK USER HELP ")


def said(command: str, *, plan: bool = False, status: str = "CONTINUE") -> str:
    first = "PLAN:\n1. the city\n2. the table\n" if plan else ""
    return f"{first}THOUGHT: it is so\nCOMMANDS: {command}\nEXPLANATION: then\nSTATUS: {status}"


def endpoint(server: FaultServer) -> ChatModel:
    return ChatModel(ChatConfig(model="any", base_url=server.base_url, temperature=0.9))


async def test_k_replies_the_first_greedy_are_the_distinct_candidates() -> None:
    replies = iter([said('TYPE [1] "Rome"', plan=True), said("CLICK [2]"), said("CLICK [9]"), said("CLICK [2]")])
    async with FaultServer(lambda _: next(replies)) as server, endpoint(server) as model:
        offered = await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 4)
    first, second = offered.candidates
    assert (first.action, second.action) == (Write(mark=1, text="Rome"), Click(mark=2))
    assert (first.plan, first.thought, first.explanation) == ("1. the city 2. the table", "it is so", "then")
    assert [(used.role, used.calls, used.tokens_in) for used in offered.usage] == [("proposer", 4, 400)]
    assert [request["temperature"] for request in server.requests] == [0.0, 0.9, 0.9, 0.9]
    assert len({request["seed"] for request in server.requests}) == 4
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert "PLAN:" in system
    assert all(command in system for command in COMMANDS)
    assert "Task: a table for 2\n" in user
    assert "response_format" not in server.requests[0]


async def test_a_sample_is_not_greedy() -> None:
    async with FaultServer(lambda _: said("CLICK [2]", plan=True)) as server, endpoint(server) as model:
        await ChatProposer(model, dialect=COMPOSITE).sample(STATE)
        assert [request["temperature"] for request in server.requests] == [0.9]
        server.requests.clear()
        proposer = SamplingProposer(model, temperature=0.7, samples_per_candidate=2, dialect=COMPOSITE)
        sampled = await proposer.sample(STATE)
        drawn = len(server.requests)
        await proposer.propose(STATE, 2)
    assert [candidate.action for candidate in sampled.candidates] == [Click(mark=2)]
    assert {request["temperature"] for request in server.requests[:drawn]} == {0.7}
    assert server.requests[drawn]["temperature"] == 0.0


async def test_a_candidate_has_the_log_probability_of_its_reply_where_that_is_wanted() -> None:
    reply = said("CLICK [2]", plan=True)
    async with FaultServer(lambda _: reply, log_prob=-0.25) as server, endpoint(server) as model:
        [one] = (await ChatProposer(model, dialect=COMPOSITE, log_probs=True).propose(STATE, 1)).candidates
        [other] = (await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 1)).candidates
    assert (one.log_prob, other.log_prob) == (-0.25 * len(reply.split()), None)


async def test_later_steps_show_plan_and_composite_history_and_ask_for_no_plan() -> None:
    replies = iter([said("CLICK [2]", plan=True), f"```\n\n{said('NONE', status='DONE')}\n```"])
    shot = Screenshot(sha256="0" * 64, media_type="image/jpeg", width=8, height=8, data=b"jpeg")
    async with FaultServer(lambda _: next(replies)) as server, endpoint(server) as model:
        proposer = ChatProposer(model, dialect=COMPOSITE)
        taken = (await proposer.propose(STATE, 1)).candidates
        after = STATE.model_copy(
            update={
                "decisions": (Decision(candidates=taken, scores=(0.0,), chosen=0),),
                "observation": PAGE.model_copy(update={"screenshot": shot}),
            }
        )
        [answered] = (await proposer.propose(after, 1)).candidates
    assert (answered.action, answered.status) == (Answer(text="then"), "done")
    system, user = (message["content"] for message in server.requests[1]["messages"])
    assert "PLAN:" not in system
    assert "Plan: 1. the city 2. the table" in user[0]["text"]
    assert "1. click button Find a table | it is so | then" in user[0]["text"]
    assert user[1]["type"] == "image_url"


@pytest.mark.parametrize("room", [True, False], ids=["for a repair turn", "for none"])
async def test_a_fresh_reply_is_none_that_was_drawn_before(room: bool) -> None:
    async with BrokenServer(lambda _: "Sure!") as server, endpoint(server) as model:
        await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 3)
        if not room:
            server.takes = max(len(json.dumps(one)) for one in server.requests if len(one["messages"]) == 2) + 20
            server.requests.clear()
            await ChatProposer(model, dialect=COMPOSITE).propose(STATE, 3)
    drawn = [request["seed"] for request in server.requests if len(request["messages"]) == 2]
    assert len(drawn) == len(set(drawn)) == (4 if room else 5)


def test_the_setting_chooses_it() -> None:
    settings = BestOfQSettings(
        endpoints={"chat": ChatConfig(model="any", base_url="http://127.0.0.1:9/v1")},
        model=ModelSettings(dialect="composite"),
    )
    models, plain = Models(settings), Models(settings.model_copy(update={"model": ModelSettings()}))
    proposer, other = make_proposer(models), make_proposer(plain)
    assert isinstance(proposer, ChatProposer)
    assert isinstance(other, ChatProposer)
    assert (proposer.dialect is COMPOSITE, other.dialect is COMPOSITE) == (True, False)
    assert models.prompts != plain.prompts
    with pytest.raises(ConfigError, match="names elements by marks, not by point"):
        make_proposer(Models(settings.model_copy(update={"by": "point"})))
