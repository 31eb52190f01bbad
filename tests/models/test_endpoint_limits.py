"""An endpoint: what a hostile one may not do, what calls cost, and how they wait for their turn."""

import asyncio
import time
from math import nan

import pytest
from broken_server import BrokenServer

from bestofq.agents.json_replies import json_of
from bestofq.core.errors import ConfigError, ModelError, ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.models import endpoint as bounds
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.endpoint import RateLimit
from bestofq.models.prices import Budget, Price, price_of

ASK = Request(messages=user("hello"), greedy=False)


def model(server: BrokenServer) -> ChatModel:
    return ChatModel.at(server.base_url, "any", attempts=2, deadline=10.0, usd_in=1.0, usd_out=1.0)


@pytest.mark.parametrize("text", ["{" * 300_000, '{"' * 150_000, '{"a":"' * 50_000, '{"a" 1 ' * 40_000])
def test_no_reply_blocks_the_loop(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ReplyError):
        json_of(Reply(text), dict)
    assert time.perf_counter() - began < 1.0
    assert json_of(Reply('{so} {it} {goes}: ```{"a": {"b": 1}}```'), dict) == {"a": {"b": 1}}


async def test_no_other_host_is_asked_or_believed() -> None:
    async with BrokenServer(lambda _: '{"forged": 1}') as other:
        faults = BrokenServer(lambda _: '{"a": 1}', script=["elsewhere", "ok"], other=other.base_url)
        async with faults as server, model(server) as asked:
            with pytest.raises(ConfigError, match=other.base_url):
                await asked.generate(ASK)
            assert json_of((await asked.generate(ASK)).replies[0], dict) == {"a": 1}
        assert not other.requests


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BODY_LIMIT", 2**20)
    async with BrokenServer(lambda _: "hi", script=["flood", "flood", "ok"]) as server, model(server) as asked:
        with pytest.raises(ModelError, match="1 MiB"):
            await asked.generate(ASK)
        assert (await asked.generate(ASK)).replies[0].text == "hi"


def test_what_is_set_comes_before_the_published_price() -> None:
    assert ChatConfig(model="gpt-4.1").price() == price_of("openai/gpt-4.1-2025-04-14") == (2, 8)
    assert ChatConfig(model="gpt-4.1", usd_in=1.0).price() == (1, 8)
    assert ChatConfig(model="another").price() == (None, None)


@pytest.mark.parametrize("limit", [nan, -1.0])
def test_a_budget_is_a_number_of_dollars(limit: float) -> None:
    with pytest.raises(ConfigError, match=f"--budget {limit:g} is no limit: give USD, 0 or more"):
        Budget(limit)


def test_an_unknown_price_is_never_0() -> None:
    assert Price(None, None).usd(100, 20) is None
    assert Price(1.0, None).usd(100, 0) is None
    assert Price(0.0, 0.0).usd(100, 20) == 0
    assert Price(2.0, 8.0).usd(1_000_000, 500_000) == 6.0


async def test_a_call_that_is_given_up_as_its_turn_comes_leaves_it_to_the_next() -> None:
    pace = RateLimit(1)
    taken: list[str] = []

    async def call(name: str) -> None:
        async with pace.turn():
            taken.append(name)

    async with pace.turn():
        first, second = asyncio.create_task(call("first")), asyncio.create_task(call("second"))
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert taken == ["second"]


async def test_all_that_wait_get_their_turn_though_the_breaker_opens() -> None:
    pace = RateLimit(3, trip_after=2, cooldown=0.02)
    at_once, most = 0, 0

    async def call(number: int) -> None:
        nonlocal at_once, most
        async with pace.turn():
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.001)
            at_once -= 1
            if number < 6:
                pace.record_failure()
            else:
                pace.record_success()

    async with asyncio.timeout(5):
        await asyncio.gather(*(call(number) for number in range(60)))
    assert most == 3
    assert not pace.paused
