"""Agent Q's composite action, written and read."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from broken_server import BrokenServer

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.composite import COMPOSITE, composite_prompt, parse_command, parse_composite
from bestofq.agents.proposers import ChatProposer, SamplingProposer
from bestofq.agents.scorers.constant import VoteScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.config.agents import make_proposer
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.actions import Answer, AskUser, Clear, Click, GoBack, Goto, Scroll, Submit, Write
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.language import Request
from bestofq.core.observation import Element, Observation, Screenshot, Task
from bestofq.core.seeds import step_seed
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedModel
from experiments.pocket_models.composite import composite_reply

PAGE = Observation(
    url="https://tables.example/",
    title="Tables",
    text='City: "Rome" [1]\nFind a table [2]',
    elements=(
        Element(mark=1, role="textbox", name="City", value="Rome"),
        Element(mark=2, role="button", name="Find a table"),
    ),
    notices=("user: outside, please",),
)
TASK = Task(id="t", suite="s", goal="a table for 2", start_url="https://tables.example/")
STATE = State(task=TASK, observation=PAGE)
FIRST = """ set the city; find a table
THOUGHT: it says Rome
COMMANDS: TYPE [1] "Pisa "on" Arno"
EXPLANATION: set the city
STATUS: CONTINUE"""


def test_the_first_reply_has_a_plan_and_the_prompt_asks_for_it() -> None:
    assert composite_prompt(STATE).endswith("user: a table for 2\nPLAN:")
    candidate = parse_composite(FIRST, PAGE)
    assert candidate.plan == "set the city; find a table"
    assert candidate.thought == "it says Rome"
    assert candidate.action == Write(mark=1, text='Pisa "on" Arno')
    assert candidate.label == 'write textbox City "Pisa "on" Arno"'
    assert (candidate.explanation, candidate.status) == ("set the city", "continue")
    assert composite_reply(candidate, first=True) == FIRST


def test_the_history_is_all_composite_actions_and_the_current_page_alone() -> None:
    taken = parse_composite(FIRST, PAGE)
    decision = Decision(candidates=(taken, Candidate(action=GoBack(), label="back")), scores=(1, 0), chosen=0)
    after = PAGE.model_copy(update={"text": "Where to? [2]", "notices": ()})
    prompt = composite_prompt(STATE.model_copy(update={"decisions": (decision,), "observation": after}))
    assert prompt == (
        "user: a table for 2\nplan: set the city; find a table\n"
        'did: write textbox City "Pisa "on" Arno" | it says Rome | set the city\n'
        "page: Tables\nWhere to? [2]\nuser: a table for 2\nTHOUGHT:"
    )


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("CLICK [2]", Click(mark=2)),
        ("SUBMIT [1]", Submit(mark=1)),
        ("CLEAR [1]", Clear(mark=1)),
        ("SCROLL UP", Scroll(direction="up")),
        ("GOTO https://tables.example/rome", Goto(url="https://tables.example/rome")),
        ('ASK USER HELP "inside or outside?"', AskUser(question="inside or outside?")),
        ('TYPE [1] "Pisa   on"', Write(mark=1, text="Pisa   on")),
        ("NONE", Answer(text="booked for 7 PM")),  # ends the episode, with the explanation
    ],
)
def test_every_command_is_read_as_it_is_written(command: str, action: object) -> None:
    status = "DONE" if command == "NONE" else "CONTINUE"
    reply = f" so\nCOMMANDS: {command}\nEXPLANATION: booked for 7 PM\nSTATUS: {status}"
    candidate = parse_composite(reply, PAGE)
    assert candidate.action == action
    assert composite_reply(candidate, first=False) == reply


@pytest.mark.parametrize("before", ["<think>\nMy plan is:\nto look\n</think>\n\nPLAN:", "Sure!\nPLAN:", "PLAN:"])
def test_what_stands_before_the_plan_is_no_part_of_it(before: str) -> None:
    candidate = parse_composite(before + FIRST, PAGE)
    assert (candidate.plan, candidate.thought) == ("set the city; find a table", "it says Rome")
    assert candidate.reply == before + FIRST


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("CLICK [2]", "is not thought, COMMANDS"),
        (f"<think>\nPLAN:{FIRST}", "is not thought, COMMANDS"),
        (" so\nCOMMANDS: CLICK [2]\nEXPLANATION: then", "is not thought, COMMANDS"),
        (" so\nCOMMANDS: CLICK [9]\nEXPLANATION: then\nSTATUS: CONTINUE", "names mark 9: the page has 2 marks"),
        (" so\nCOMMANDS: HOVER [1]\nEXPLANATION: then\nSTATUS: CONTINUE", "'HOVER \\[1\\]' is no command"),
        (" so\nCOMMANDS: CLICK [1]; CLICK [2]\nEXPLANATION: then\nSTATUS: CONTINUE", "is no command"),
        (' so\nCOMMANDS: TYPE [1] "a"; TYPE [2] "b"\nEXPLANATION: then\nSTATUS: CONTINUE', "is no command"),
        (" so\nCOMMANDS: NONE\nEXPLANATION: then\nSTATUS: CONTINUE", "'NONE' is no command"),
        (" so\nCOMMANDS: CLICK [0]\nEXPLANATION: then\nSTATUS: CONTINUE", "greater than or equal to 1"),
    ],
)
def test_what_is_no_composite_action_is_refused_in_words(reply: str, complaint: str) -> None:
    with pytest.raises(ReplyError, match=complaint):
        parse_composite(reply, PAGE)


def test_actions_without_a_command_are_refused() -> None:
    with pytest.raises(ValueError, match="no command for 'back'"):
        composite_reply(Candidate(action=GoBack(), label="back"), first=False)
    with pytest.raises(ReplyError):
        parse_command("BACK")


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
        decisions = (Decision(candidates=taken, scores=(0.0,), chosen=0),)
        page = PAGE.model_copy(update={"screenshot": shot})
        after = STATE.model_copy(update={"decisions": decisions, "observation": page})
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


SHELF = Observation(
    url="http://shop/",
    title="Shop",
    text="Red mug\nAdd to cart [1]\nBlue mug\nAdd to cart [2]",
    elements=tuple(Element(mark=mark, role="button", name="Add to cart") for mark in (1, 2)),
)
SHELF_STATE = State(task=Task(id="t", suite="s", goal="a blue mug", start_url="/", seed=5), observation=SHELF, seed=9)
BOTH = [Click(mark=1), Click(mark=2)]


async def test_two_buttons_with_the_same_words_are_two_candidates() -> None:
    def replies(_: Request) -> Sequence[str]:
        return ["click [1]", "click [2]", "again\nclick [1]"]

    drawn = await SamplingProposer(ScriptedModel(replies), samples_per_candidate=1).propose(SHELF_STATE, 3)
    assert [candidate.action for candidate in drawn.candidates] == BOTH
    assert [candidate.votes for candidate in drawn.candidates] == [2, None]
    assert drawn.candidates[0].label == drawn.candidates[1].label == "click button Add to cart"
    marks = iter([1, 2, 1])
    async with FaultServer(lambda _: said(f"CLICK [{next(marks)}]")) as server, endpoint(server) as model:
        chosen = await ChatProposer(model, dialect=COMPOSITE).propose(SHELF_STATE, 3)
    assert [candidate.action for candidate in chosen.candidates] == BOTH


async def test_a_vote_takes_what_most_replies_gave_and_the_first_of_equals() -> None:
    most = SamplingProposer(ScriptedModel(lambda _: ["click [1]", "click [2]", "why not\nclick [2]"]))
    agent = Agent(name="vote", proposer=most, scorer=VoteScorer(), selector=GreedySelector(), n_candidates=3)
    decision = await agent.decide(SHELF_STATE, np.random.default_rng(0))
    assert (decision.chosen, decision.scores) == (1, (1.0, 2.0))
    even = replace(agent, proposer=SamplingProposer(ScriptedModel(lambda _: ["click [1]", "click [2]"])))
    assert (await even.decide(SHELF_STATE, np.random.default_rng(0))).chosen == 0


async def test_draws_that_are_no_action_are_told_with_what_they_took() -> None:
    replies = ["hello", "click [7]", "fly"]
    with pytest.raises(ReplyError) as error:
        await SamplingProposer(ScriptedModel(lambda _: replies), samples_per_candidate=1).propose(SHELF_STATE, 3)
    assert error.value.replies == tuple(replies)
    (used,) = error.value.usage
    assert (used.role, used.calls, used.tokens_out) == ("proposer", 1, len("".join(replies)))
    assert used.tokens_in > 0


async def test_draws_come_from_the_step_s_seed_and_not_from_the_task_s() -> None:
    asked: list[Request] = []

    def noting(request: Request) -> Sequence[str]:
        asked.append(request)
        return ["click [1]"]

    await SamplingProposer(ScriptedModel(noting)).propose(SHELF_STATE, 1)
    async with FaultServer(lambda _: said("CLICK [1]")) as server, endpoint(server) as model:
        await ChatProposer(model, dialect=COMPOSITE).propose(SHELF_STATE, 1)
    assert (asked[0].seed, server.requests[0]["seed"]) == (step_seed(9, 0), step_seed(9, 0) % 2**31)
