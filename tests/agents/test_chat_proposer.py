"""Candidates from a chat endpoint, over real HTTP on loopback."""

import base64
import hashlib
import io
import json
import math
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shop_page
from broken_server import BrokenServer, Fault
from PIL import Image

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.json import JsonDialect, actions_on, candidates_schema, parse_candidates
from bestofq.agents.prompting import CandidateSource
from bestofq.agents.proposers import ChatProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.critics import ChatPickerScorer
from bestofq.agents.selectors import UniformSelector
from bestofq.core.actions import ACTION, Action, Answer, Click, Goto, Press, Scroll, SwitchTab, Targeted, Upload, Write
from bestofq.core.decision import Candidate, Decision, Provenance, State, StepResult
from bestofq.core.errors import ConfigError, ContextError, ModelError, ReplyError
from bestofq.core.observation import Box, Element, Observation, Screenshot
from bestofq.core.picture import Picture, PictureLimits
from bestofq.core.protocols import Env
from bestofq.models import chat
from bestofq.models.chat import ChatModel
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.pages import ShopVisit, View
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig

SHOT = Screenshot(sha256="0" * 64, media_type="image/jpeg", width=8, height=8, data=b"jpeg")
PAGE = shop_page.PAGE.model_copy(update={"screenshot": SHOT})
STATE = shop_page.STATE.model_copy(update={"observation": PAGE})
CLICK = {"thought": "it is there", "note": "mugs cost 5", "action": {"type": "click", "element": 2}}
WRITE = {"thought": "look", "note": "", "action": {"type": "write", "element": 1, "text": "mug", "enter": True}}


def said(*candidates: Any) -> str:
    return json.dumps({"candidates": candidates})


def endpoint(server: BrokenServer, **settings: Any) -> ChatModel:
    return ChatModel.at(server.base_url, "any", **{"deadline": 4, "attempts": 40, **settings})


async def test_all_candidates_of_one_reply_with_thought_note_and_usage() -> None:
    async with BrokenServer(lambda _: said(CLICK, WRITE, CLICK), log_prob=-0.25) as server, endpoint(server) as model:
        offered = await ChatProposer(model, candidates="list").propose(STATE, 3)
    first, second = offered.candidates
    assert first.action == Click(mark=2)
    assert (first.label, first.thought, first.note) == ("click link Mug", "it is there", "mugs cost 5")
    assert second.action == Write(mark=1, text="mug", enter=True)
    assert (first.log_prob, second.log_prob) == (None, None)  # each depends on those before it
    (used,) = offered.usage
    assert (used.role, used.tokens_in, used.tokens_out, used.calls, used.usd) == ("proposer", 100, 20, 1, None)
    system, user = server.requests[0]["messages"]
    assert "3 candidate next actions" in system["content"]
    assert "a mug" in user["content"][0]["text"]
    assert user["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,anBlZw=="


@pytest.mark.parametrize("source", ["auto", "samples"])
async def test_candidates_that_a_list_lacks_are_drawn_one_by_one(source: CandidateSource) -> None:
    scroll = {"action": {"type": "scroll", "direction": "down"}}

    def reply(request: Mapping[str, Any]) -> str:
        if "3 candidate" in request["messages"][0]["content"]:
            return said(CLICK, CLICK, {"action": {"type": "fly"}})
        return said(CLICK if request["temperature"] == 0 else WRITE if request["seed"] % 2 else scroll)

    async with BrokenServer(reply) as server, endpoint(server, temperature=0.9) as model:
        offered = await ChatProposer(model, candidates=source).propose(STATE, 3)
    assert offered.candidates[0].action == Click(mark=2)
    assert {c.action.kind for c in offered.candidates} == {"click", "write", "scroll"}
    assert (offered.usage[0].calls, len(server.requests)) == (3, 3)
    assert [request["temperature"] for request in server.requests[1:]] == [0.9, 0.9]
    schemas = [request["response_format"]["json_schema"]["schema"] for request in server.requests]
    assert [schema["properties"]["candidates"]["minItems"] for schema in schemas[1:]] == [1, 1]


async def test_a_list_stands_when_nothing_that_is_drawn_for_it_can_be_read_or_the_endpoint_is_paid_and_fails() -> None:
    def reply(request: Mapping[str, Any]) -> str:
        return said(CLICK) if "3 candidate" in request["messages"][0]["content"] else "what?"

    async with BrokenServer(reply) as server, endpoint(server) as model:
        offered = await ChatProposer(model).propose(STATE, 3)
    assert ([c.action for c in offered.candidates], offered.failed) == ([Click(mark=2)], False)
    assert offered.usage[0].calls == len(server.requests) == 3
    async with BrokenServer(reply, script=["ok", "500"]) as server, endpoint(server, attempts=1) as model:
        with pytest.raises(ModelError) as caught:
            await ChatProposer(model).propose(STATE, 3)
    assert [used.calls for used in caught.value.usage] == [1]


@pytest.mark.parametrize("n", [1, 3])
async def test_without_thoughts_a_candidate_is_its_action(n: int) -> None:
    async with BrokenServer(lambda _: said({"action": CLICK["action"]})) as server, endpoint(server) as model:
        offered = await ChatProposer(model, JsonDialect(thoughts=False), candidates="list").propose(STATE, n)
    assert [(c.action, c.thought) for c in offered.candidates] == [(Click(mark=2), "")]
    [request] = server.requests
    assert not re.search("thought|note", json.dumps(request))


async def test_log_probabilities_that_tell_nothing_are_left_out() -> None:
    async with BrokenServer(lambda _: said(CLICK), log_prob=-math.inf) as server, endpoint(server) as model:
        offered = await ChatProposer(model, log_probs=True).propose(STATE, 1)
    assert offered.candidates[0].log_prob is None
    assert Candidate(action=Click(mark=2), label="", log_prob=math.nan).log_prob is None


async def test_with_log_probabilities_each_candidate_is_a_reply_of_its_own() -> None:
    replies = iter([said(CLICK), "what?", said(CLICK, WRITE), said(CLICK), said(WRITE)])
    async with BrokenServer(lambda _: next(replies), log_prob=-0.25) as server, endpoint(server) as model:
        offered = await ChatProposer(model, log_probs=True).propose(STATE, 5)
    first, second = offered.candidates
    assert (first.action, second.action) == (Click(mark=2), Write(mark=1, text="mug", enter=True))
    words = [len(said(one).split()) for one in (CLICK, WRITE)]
    assert [first.log_prob, second.log_prob] == [-0.25 * count for count in words]
    assert offered.usage[0].calls == 5
    assert [request["temperature"] for request in server.requests] == [0.0, *[model.config.temperature] * 4]
    assert "the one next action" in server.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize("log_probs", [True, False], ids=["its second reply", "the picker's reply"])
async def test_what_was_paid_before_an_endpoint_fails_is_counted(log_probs: bool) -> None:
    failing = BrokenServer(lambda _: said(CLICK, WRITE), script=["ok", "500"], log_prob=-0.25)
    async with failing as server, endpoint(server, attempts=1) as model:
        agent = Agent(name="a", proposer=ChatProposer(model, log_probs=log_probs), scorer=ChatPickerScorer(model))
        with pytest.raises(ModelError) as caught:
            await agent.decide(STATE, np.random.default_rng(0))
    (used,) = caught.value.usage
    assert (used.role, used.calls, used.tokens_in > 0) == ("proposer", 1, True)


async def test_words_instead_of_marks() -> None:
    reply = said({**CLICK, "action": {"type": "click", "element": "the mug"}})
    async with BrokenServer(lambda _: reply) as server, endpoint(server) as model:
        offered = await ChatProposer(model, dialect=JsonDialect(by="words")).propose(STATE, 1)
    assert offered.candidates[0].action == Click(target="the mug")
    assert "described in words" in server.requests[0]["messages"][0]["content"]


async def test_a_bad_reply_gets_one_repair_turn_then_a_fresh_sample_then_a_no_op() -> None:
    replies = iter(["what?", said({**CLICK, "action": {"type": "click", "element": 9}}), said(CLICK)])
    async with BrokenServer(lambda _: next(replies)) as server, endpoint(server) as model:
        offered = await ChatProposer(model).propose(STATE, 1)
    assert offered.candidates[0].action == Click(mark=2)
    turns = [[message["role"] for message in request["messages"]] for request in server.requests]
    assert turns == [["system", "user"], ["system", "user", "assistant", "user"], ["system", "user"]]
    assert "no JSON object" in server.requests[1]["messages"][-1]["content"]
    assert server.requests[0]["seed"] != server.requests[2]["seed"]
    async with BrokenServer(lambda _: "what?") as server, endpoint(server) as model:
        asked = ChatProposer(model)
        offered = await asked.propose(STATE, 1)
    assert (offered.candidates[0].label, offered.usage[0].calls) == ("wait 1", 3)
    assert "no JSON object" in offered.candidates[0].thought
    assert offered.candidates[0].reply == "what?"


async def test_without_room_for_a_repair_turn_the_next_reply_is_a_fresh_sample() -> None:
    async with BrokenServer(lambda _: said(CLICK)) as server, endpoint(server) as model:
        await ChatProposer(model).propose(STATE, 1)
        room = len(json.dumps(server.requests[0])) + 20
    replies = iter(["what? " * 20, said(CLICK)])
    async with BrokenServer(lambda _: next(replies), takes=room) as server, endpoint(server) as model:
        offered = await ChatProposer(model).propose(STATE, 1)
    assert offered.candidates[0].action == Click(mark=2)
    first, repair, *_, last = server.requests
    assert len(repair["messages"]) == 4
    assert last["messages"] == first["messages"]
    assert last["seed"] != first["seed"]


@cache
def seen(seed: int, width: int = 1280, height: int = 720) -> Screenshot:
    """A picture that says something different all over, so that it has some size."""
    noise = Image.effect_noise((width // 4, height // 4), 90 + seed).resize((width, height))
    kept = io.BytesIO()
    noise.save(kept, "JPEG", quality=80)
    data = kept.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return Screenshot(sha256=digest, media_type="image/jpeg", width=width, height=height, data=data)


def sizes(request: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Of the pictures in a request."""
    content = request["messages"][1]["content"]
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"] if content[0] != "T" else []
    return [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size for url in urls]


async def test_the_last_screenshots_are_sent_oldest_first() -> None:
    now = PAGE.model_copy(update={"screenshot": seen(3)})
    state = STATE.model_copy(update={"observation": now, "screenshots": (seen(0), seen(1), seen(2))})
    async with BrokenServer(lambda _: said(CLICK)) as server, endpoint(server) as model:
        await ChatProposer(model).propose(state, 1)
        await ChatProposer(model, screenshots=3).propose(state, 1)
        await ChatProposer(model, screenshots=0).propose(state, 1)
    one, three, none = (request["messages"][1]["content"] for request in server.requests)
    assert len(one) == 2
    shown = [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in three[1:]]
    assert shown == [seen(1).data, seen(2).data, seen(3).data]
    assert "The 3 pictures show the pages you saw last" in three[0]["text"]
    assert isinstance(none, str)


async def test_too_long_a_request_goes_down_the_ladder_and_is_never_sent_again() -> None:
    """A server that takes so many bytes, fewer each time: what is sent shrinks rung by rung, to the last."""
    done = Candidate(action=Click(mark=2), label="click link Mug", note="seen")
    decisions = (Decision(candidates=(done,), scores=(0.0,), chosen=0),) * 5
    now = PAGE.model_copy(update={"screenshot": seen(2)})
    state = STATE.model_copy(update={"observation": now, "decisions": decisions, "screenshots": (seen(0), seen(1))})
    async with BrokenServer(lambda _: said(CLICK), takes=0) as server, endpoint(server) as model:
        with pytest.raises(ContextError):
            await ChatProposer(model, screenshots=3).propose(state, 1)
    rungs = [(sizes(one), json.dumps(one["messages"]).count("click link Mug (seen)")) for one in server.requests]
    whole, half, quarter = (1280, 720), (905, 509), (639, 359)
    fewer_pixels_then_pictures = [([whole] * 3, 5), ([half] * 3, 5), ([quarter] * 3, 5), ([quarter] * 2, 5)]
    fewer_steps_then_none = [([quarter], 5), ([quarter], 2), ([quarter], 1), ([quarter], 0), ([], 0)]
    assert rungs == [*fewer_pixels_then_pictures, *fewer_steps_then_none]
    lengths = [len(json.dumps(request)) for request in server.requests]
    assert lengths == sorted(set(lengths), reverse=True)
    assert "5. click link Mug" in json.dumps(server.requests[5])  # what is left keeps its number
    takes = lengths[4] + 50
    async with BrokenServer(lambda _: said(CLICK), takes=takes) as server, endpoint(server) as model:
        offered = await ChatProposer(model, screenshots=3).propose(state, 1)
    assert (offered.candidates[0].action, len(server.requests)) == (Click(mark=2), 5)


async def test_points_are_on_the_picture_as_it_was_sent_even_when_it_shrank() -> None:
    """A 2560 x 1440 picture of a 1280 x 720 page; what fits is found by halving, and the point is read on that."""
    shot = seen(0, 2560, 1440).model_copy(update={"scale": 2.0})
    mug = Element(mark=1, role="link", name="Mug", box=Box(600, 300, 80, 20))
    page = PAGE.model_copy(update={"screenshot": shot, "elements": (mug,)})
    state = STATE.model_copy(update={"observation": page})

    def reply(request: Mapping[str, Any]) -> str:
        width, height = sizes(request)[0]
        outside = {"type": "click", "x": 9999, "y": 0}
        middle = {"type": "click", "x": round(640 * width / 1280), "y": round(310 * height / 720)}
        return said({"action": outside}, {"action": middle})

    async with BrokenServer(reply, script=["overflow", "overflow"]) as server, endpoint(server) as model:
        offered = await ChatProposer(model, dialect=JsonDialect(by="point"), candidates="list").propose(state, 2)
    (found,) = offered.candidates
    assert isinstance(found.action, Click)
    assert found.action.point == pytest.approx((640, 310), abs=1)
    assert found.label == "click link Mug"
    width, height = sizes(server.requests[2])[0]
    assert f"{width} wide and {height} high" in server.requests[2]["messages"][0]["content"]
    async with BrokenServer(reply, takes=0) as server, endpoint(server) as model:
        with pytest.raises(ContextError):
            await ChatProposer(model, dialect=JsonDialect(by="point")).propose(state, 1)
        assert sizes(server.requests[-1])  # a point needs its picture to the end
        blind = STATE.model_copy(update={"observation": PAGE.model_copy(update={"screenshot": None})})
        with pytest.raises(ConfigError, match=r"suite\.screenshots=true"):
            await ChatProposer(model, dialect=JsonDialect(by="point")).propose(blind, 1)


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"type": "click", "element": 9}, "no element 9"),
        ({"type": "click"}, "exactly one of"),
        ({"type": "fly"}, "none of click, write"),
        ({"type": "press", "keys": "Enterr"}, "no key"),
        ({"type": "scroll", "element": 9, "direction": "up"}, "no element 9"),
        ({"type": "wait", "seconds": 1e9}, "less than or equal"),
        ({"type": "write", "element": 1}, "text Field required"),
        (7, '"thought", "note" and "action"'),
        ("mug", "no command"),
    ],
)
def test_what_is_no_action_is_refused_in_words(action: Any, problem: str) -> None:
    with pytest.raises(ReplyError, match=problem):
        parse_candidates({"candidates": [{"thought": "", "note": "", "action": action}]}, PAGE, 3, "mark")


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ({"type": "press", "keys": "Escape", "element": None}, Press(keys="Escape")),
        ({"type": "press_key", "key": "enter", "element": 1}, Press(mark=1, keys="Enter")),
        ({"type": "scroll", "direction": "Down", "element": 2}, Scroll(mark=2)),
        ({"type": "upload_file", "element": 1, "path": "cv.pdf"}, Upload(mark=1, file="cv.pdf")),
        ({"type": "switch tab", "index": 2}, SwitchTab(tab=2)),
        ({"type": "navigate", "url": "a.test"}, Goto(url="a.test")),
        ({"type": "select_option", "element": 1, "text": "Ham"}, Write(mark=1, text="Ham")),
        ("press Control+a [1]", Press(mark=1, keys="Control+a")),
    ],
)
def test_real_pages_take_more_than_the_papers_actions(written: Any, action: Action) -> None:
    assert parse_candidates([{"action": written}], PAGE, 1, "mark")[0].action == action


@pytest.mark.parametrize("written", [{"type": "press", "keys": "Tab"}, {"type": "goto", "url": "a.test"}])
def test_the_paper_has_eight_actions(written: Any) -> None:
    with pytest.raises(ReplyError, match="none of click, write, scroll"):
        parse_candidates([{"action": written}], PAGE, 1, "mark", actions="paper")
    scroll = {"type": "scroll", "direction": "up", "element": 2}
    assert parse_candidates([scroll], PAGE, 1, "mark", actions="paper")[0].action == Scroll(direction="up")


def test_a_page_is_offered_the_actions_that_it_can_take() -> None:
    file = Element(mark=1, role="button", name="CV", asks="file")
    more = PAGE.model_copy(update={"elements": (file,), "tabs": ("a", "b")})
    assert {"upload", "switch_tab"}.isdisjoint(actions_on(PAGE, "web"))
    assert {"upload", "switch_tab"} <= {*actions_on(more, "web")}
    assert len(actions_on(PAGE, "paper")) == len(actions_on(None, "paper")) == 8  # Fig. 7


@pytest.mark.parametrize("x", [10**400, float("inf"), float("nan"), -1, "1"])
def test_a_point_that_is_nowhere_is_refused_in_words(x: Any) -> None:
    shot = Picture(
        media_type="image/png", data=b"", width=8, height=8, css_width=8, css_height=8, limits=PictureLimits()
    )
    with pytest.raises(ReplyError, match=r"outside the picture|both numbers"):
        parse_candidates([{"action": {"type": "click", "x": x, "y": 1}}], PAGE, 1, "point", shot)


def test_valid_candidates_survive_invalid_neighbours() -> None:
    bad = {"thought": "", "note": "", "action": {"type": "fly"}}
    found = parse_candidates({"candidates": [bad, CLICK, 7, WRITE]}, PAGE, 1, "mark")
    assert [c.action for c in found] == [Click(mark=2)]
    answer = {"thought": "", "note": None, "action": {"type": "answer", "text": "5"}}
    assert parse_candidates([answer], PAGE, 3, "mark")[0].action == Answer(text="5")


def test_an_action_that_a_reply_lists_twice_has_one_vote() -> None:
    found = parse_candidates([CLICK, WRITE, CLICK], PAGE, 3, "mark")
    assert [(c.action.kind, c.votes) for c in found] == [("click", None), ("write", None)]


def test_the_schema_keeps_to_what_strict_output_allows() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for by in ("mark", "words", "point"):
        schema = candidates_schema(3, by)
        walk(schema)
    walk(candidates_schema(3, "mark", [1, 2]))
    for marks in (None, [], [1, 2]):
        walk(candidates_schema(3, "mark", marks, kinds=actions_on(None, "web")))
    actions = schema["properties"]["candidates"]["items"]["properties"]["action"]["anyOf"]
    assert len(actions) == 8  # Fig. 7


@pytest.mark.parametrize("marks", [(), (3, 8)])
async def test_a_server_is_told_the_marks_of_the_page(marks: tuple[int, ...]) -> None:
    elements = tuple(Element(mark=mark, role="link", name=str(mark)) for mark in marks)
    state = State(task=STATE.task, observation=Observation(url="/", title="", text="", elements=elements))
    offered = '{"candidates": [{"thought": "", "note": "", "action": {"type": "go_back"}}]}'
    async with BrokenServer(lambda _: offered) as server, endpoint(server) as model:
        for marks_named in (True, False):
            dialect = JsonDialect(page_marks=marks_named)
            await ChatProposer(model, dialect, candidates="list").propose(state, 3)
    for request, named in zip(server.requests, (True, False), strict=True):
        candidates = request["response_format"]["json_schema"]["schema"]["properties"]["candidates"]
        assert (candidates["minItems"], candidates["maxItems"]) == (3, 3)
        kinds = {
            action["properties"]["type"]["enum"][0]: action["properties"]
            for action in candidates["items"]["properties"]["action"]["anyOf"]
        }
        if named:
            assert ("click" in kinds) == ("write" in kinds) == bool(marks)
        if named and marks:
            assert kinds["click"]["element"]["enum"] == kinds["write"]["element"]["enum"] == [3, 8]
        if not named:
            assert kinds["click"]["element"] == {"type": "integer"}


@pytest.mark.parametrize("fault", ["nonsense", "braces", "vast", "empty", "refusal", "truncated"])
async def test_a_picker_without_a_usable_reply_leaves_the_choice_to_the_proposer(fault: Fault) -> None:
    offered = [Candidate(action=Click(mark=mark), label="click") for mark in (1, 2)]
    replies = iter(['{"best": 2}', '{"best": 3}', '{"best": 2}', '{"best": 3}'])
    async with BrokenServer(lambda _: next(replies), script=["ok", "ok", fault]) as server, endpoint(server) as model:
        picker = ChatPickerScorer(model)
        scores = [await picker.score(STATE, offered) for _ in range(3)]
    assert [found.values for found in scores] == [(0.0, 1.0), (0.0, 0.0), (0.0, 0.0)]
    assert [used.unusable for found in scores for used in found.usage] == [None, 1, 1]
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["reasoning", "best"]  # section 5: a reasoning, before the choice


@pytest.mark.parametrize("fault", ["nonsense", "braces", "empty", "vast", "surrogate"])
async def test_a_reply_without_candidates_gets_a_repair_turn(fault: Fault) -> None:
    """Also thousands of brackets or digits, and half a surrogate pair, which cannot be sent."""
    async with BrokenServer(lambda _: said(CLICK), script=[fault]) as server, endpoint(server) as model:
        offered = await ChatProposer(model).propose(STATE, 1)
    assert (offered.candidates[0].action, offered.usage[0].calls) == (Click(mark=2), 2)
    assert [len(request["messages"]) for request in server.requests] == [2, 4]
    assert "cannot be used" in server.requests[1]["messages"][-1]["content"]


class CheckedEnv(TextEnv[ShopVisit, View | None]):
    """`TextEnv` that keeps what it was given and should not have been."""

    def __init__(self, suite: WebShop, refused: list[Action]) -> None:
        super().__init__(suite)
        self._refused = refused

    async def step(self, action: Action) -> StepResult:
        known = not isinstance(action, Targeted) or 1 <= (action.mark or 0) <= len(self.place.page.controls)
        if not known or ACTION.validate_python(action.model_dump()) != action:
            self._refused.append(action)
        return await super().step(action)


async def test_every_episode_ends_whatever_the_endpoint_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most requests meet a fault, a tenth of the replies is nonsense: nothing crashes, nothing invalid is done."""
    suite = synthetic_suite(SyntheticConfig(seed=3, products_per_category=20))
    rng = random.Random(0)

    def reply(request: Mapping[str, Any]) -> str:
        content = request["messages"][1]["content"]
        marks = [int(mark) for mark in re.findall(r"\[(\d+)\]", content)]
        actions: list[dict[str, Any]] = [{"type": "click", "element": rng.choice([*marks, 999])} for _ in range(2)]
        if "\nSearch [1]" in content:
            actions.append({"type": "write", "element": 1, "text": "lamp", "enter": True})
        if rng.random() < 0.1:
            actions = [{"type": "explode"}]
        return said(*({"thought": "", "note": "", "action": action} for action in actions))

    shares: dict[Fault, float] = {"429": 0.3, "500": 0.2, "nonsense": 0.05, "empty": 0.03, "truncated": 0.03}
    shares |= dict.fromkeys(("reset", "page", "garbage", "refusal", "overflow", "filter"), 0.02)
    shares |= dict.fromkeys(("half", "cut", "shape", "deep", "braces", "vast"), 0.01)
    shares |= {"silence": 0.002, "drip": 0.002}
    for name, value in {"ATTEMPT_SHARE": 0.25 / 60, "FIRST_SHARE": 0.25 / 60, "SLOWER": 0}.items():
        monkeypatch.setattr(chat, name, value)
    refused: list[Action] = []
    broken = BrokenServer(reply, shares, script=list(shares), seed=2)
    async with broken as server, endpoint(server, deadline=60) as model:
        agent = Agent(name="chat", proposer=ChatProposer(model), scorer=ConstantScorer(), selector=UniformSelector())

        async def make_env() -> Env:
            return CheckedEnv(suite, refused)

        with Store.open(tmp_path) as store:
            await store.begin_run("faults", {}, Provenance(version="test"))
            tasks, options = suite.tasks("train", 12), RunOptions(step_limit=8, retries=8)
            done = await run_many(tasks, make_env, agent, store=store, run="faults", options=options)
            assert len(done) == 12
            assert {episode.outcome for episode in done} <= {"success", "failure"}
            cuts = {summary.reason.partition(":")[0] for summary in store.summaries(run="faults", status="cut")}
            assert cuts <= {"ModelError", "ContextError"}  # a crash of ours would be cut too, and tried again
            errors = [step.observation.error for episode in store.episodes(run="faults") for step in episode.steps]
    assert server.seen["ok"] > 50
    assert min(server.seen[fault] for fault in shares) > 0
    assert not any(errors)
    assert refused == []
