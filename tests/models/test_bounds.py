"""What a hostile endpoint may not do: block the loop, send on, forge a bill, fill the memory."""

import time

import pytest
from broken_server import BrokenServer

from bestofq.agents.json_replies import json_of
from bestofq.core.errors import ConfigError, ModelError, ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.models import endpoint as bounds
from bestofq.models.chat import ChatModel

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
