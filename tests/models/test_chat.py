"""The chat client against an endpoint that fails as endpoints do, over real HTTP on loopback."""

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from bestofq.core.errors import BestOfQError, ConfigError, ContextError, ModelError, ReplyError
from bestofq.models.chat import ChatConfig, ChatModel, ChatRequest, Message, tolerant_json
from bestofq.models.faults import Fault, FaultServer

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
KEY = "sk-this-must-never-be-written-down"
ASK = ChatRequest(messages=[Message(role="user", text="hello")], schema=SCHEMA)


def good(_: Mapping[str, Any]) -> str:
    return '{"a": 1}'


def model(server: FaultServer, **settings: Any) -> ChatModel:
    quick = {"backoff": 0.001, "backoff_most": 0.01, "attempt": 1.0, "deadline": 5.0, "cooldown": 0.05}
    return ChatModel(ChatConfig(model="any", base_url=server.base_url, **{**quick, **settings}))


async def test_a_reply_with_its_usage() -> None:
    async with FaultServer(good) as server, model(server) as asked:
        reply = await asked.reply(ASK)
    assert (reply.json(), reply.finish, reply.tokens_in, reply.tokens_out, reply.attempts) == (
        {"a": 1},
        "stop",
        100,
        20,
        1,
    )
    sent = server.requests[0]
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("fault", ["429", "500", "503", "reset", "silence", "drip", "garbage", "page", "half"])
async def test_what_passes_is_tried_again(fault: Fault) -> None:
    async with FaultServer(good, script=[fault, fault]) as server, model(server) as asked:
        reply = await asked.reply(ASK)
    assert reply.json() == {"a": 1}
    assert reply.attempts == 3


@pytest.mark.parametrize(("fault", "mend"), [("401", "OPENAI_API_KEY"), ("404", "base_url")])
async def test_what_does_not_pass_fails_at_once_and_names_the_setting(fault: Fault, mend: str) -> None:
    async with FaultServer(good, {fault: 1.0}) as server, model(server) as asked:
        with pytest.raises(ConfigError, match=mend):
            await asked.reply(ASK)
    assert server.seen.total() == 1


async def test_a_request_that_is_too_long_is_not_sent_again() -> None:
    async with FaultServer(good, {"overflow": 1.0}) as server, model(server) as asked:
        with pytest.raises(ContextError, match="too long"):
            await asked.reply(ASK)
    assert server.seen.total() == 1


@pytest.mark.parametrize(
    ("fault", "finish", "said"),
    [("truncated", "truncated", "cut off after 20"), ("empty", "empty", "empty"), ("refusal", "refused", "refused")],
)
async def test_replies_that_are_none_are_told_apart(fault: Fault, finish: str, said: str) -> None:
    async with FaultServer(good, script=[fault]) as server, model(server) as asked:
        reply = await asked.reply(ASK)
    assert reply.finish == finish
    with pytest.raises(ReplyError, match=said):
        reply.json()


async def test_the_ladder_is_walked_once() -> None:
    async with FaultServer(good, refuses=("json_schema", "json_object")) as server, model(server, attempts=1) as asked:
        await asked.reply(ASK)
        await asked.reply(ASK)
    sent = [request.get("response_format", {}).get("type") for request in server.requests]
    assert sent == ["json_schema", "json_object", None, None]
    assert asked.rung == "text"


async def test_silence_cannot_pass_the_deadline() -> None:
    async with FaultServer(good, {"silence": 1.0}) as server, model(server, attempt=0.2, deadline=0.5) as asked:
        began = time.monotonic()
        with pytest.raises(ModelError, match="no reply in"):
            await asked.reply(ASK)
        assert time.monotonic() - began < 1.5


async def test_retry_after_is_honoured() -> None:
    async with FaultServer(good, script=["429"]) as server, model(server, backoff=30.0, backoff_most=30.0) as asked:
        began = time.monotonic()
        await asked.reply(ASK)
        assert time.monotonic() - began < 5  # the server says 0 s; our own back-off would have been 15 s


async def test_overload_halves_the_calls_in_flight_and_success_brings_them_back() -> None:
    async with FaultServer(good, script=["429"], seconds=0.005) as server, model(server, concurrency=8) as asked:
        await asked.reply(ASK)
        assert asked._pace.allowed == 4
        await asyncio.gather(*(asked.reply(ASK) for _ in range(60)))
        assert asked._pace.allowed == 8
        assert server.most_at_once <= 8


async def test_a_dead_endpoint_is_probed_and_the_run_goes_on_when_it_is_back() -> None:
    async with (
        FaultServer(good, script=["500"] * 12, seconds=0.001) as server,
        model(server, concurrency=4, trip_after=4, cooldown=0.1, attempts=50) as asked,
    ):
        began = time.monotonic()
        replies = await asyncio.gather(*(asked.reply(ASK) for _ in range(8)))
        assert len(replies) == 8
        assert time.monotonic() - began > 0.3  # it paused, and probed one by one
        assert server.seen["500"] == 12


async def test_a_thousand_replies_through_every_fault() -> None:
    shares: dict[Fault, float] = {"429": 0.3, "500": 0.1, "503": 0.1, "reset": 0.03, "silence": 0.005, "garbage": 0.03}
    shares |= {"page": 0.02, "half": 0.02, "empty": 0.02, "truncated": 0.02, "refusal": 0.01}
    async with (
        FaultServer(good, shares, seed=1) as server,
        model(server, attempts=60, deadline=60.0, attempt=1.0, trip_after=200) as asked,
    ):
        replies = await asyncio.gather(*(asked.reply(ASK) for _ in range(1000)))
    assert len(replies) == 1000
    assert {reply.finish for reply in replies} == {"stop", "truncated", "refused", "empty"}
    assert all(reply.json() == {"a": 1} for reply in replies if reply.finish == "stop")
    assert min(server.seen[fault] for fault in shares) > 0


ECHOED: list[Fault] = ["ok", "429", "500", "503", "401", "404", "garbage", "page", "overflow", "refusal"]


@pytest.mark.parametrize("fault", ECHOED)
async def test_the_key_stays_out_of_all_that_is_kept_though_the_endpoint_echoes_it(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    said = ""
    async with FaultServer(good, {fault: 1.0}, echo=True) as server, model(server, attempts=2) as asked:
        try:
            reply = await asked.reply(ASK)
            said = f"{reply!r}"
        except BestOfQError as error:
            said = "".join(traceback.format_exception(error))
        said += repr(asked)
    assert said
    assert KEY not in said
    if fault != "garbage":  # httpcore's own DEBUG log quotes bytes that are no HTTP
        assert KEY not in caplog.text
    assert fault != "ok" or "[OPENAI_API_KEY]" in said  # it was there


async def test_a_key_is_not_cut_in_half_by_a_long_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are shortened to 200 characters: what is left of a key at the edge must not be its beginning."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY * 20)
    async with FaultServer(good, {"overflow": 1.0}, echo=True) as server, model(server) as asked:
        with pytest.raises(ContextError) as raised:
            await asked.reply(ASK)
    assert KEY[:12] not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', '```json\n{"a": 1}\n```', 'Sure! Here it is: {"a": 1}. Anything else?', ' {"a": 1}{"b"', '{"a": 1}\n'],
)
def test_json_is_found_in_its_wrapping(text: str) -> None:
    assert tolerant_json(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "click [7]", '{"a": ', '{"a": {"b": 1}', "[1, 2]"])
def test_half_a_reply_is_none(text: str) -> None:
    with pytest.raises(ReplyError):
        tolerant_json(text)
