"""Replies that cannot be read: dropped, and where none can be read asked for once more."""

from pathlib import Path
from typing import Any

import pytest

from tests.serve.agents import TOOLS, Body, Upstream, browser_use, by_label, called, click, episodes, serving

NEEDS = [{"type": "function", "function": {"name": "click", "parameters": {"required": ["mark"]}}}]


@pytest.mark.parametrize(
    ("tools", "bad", "named"),
    [
        (None, "I would click the shoes", "JSON"),
        (None, '{"action": []}', "empty"),
        (None, '{"action": "click 1"}', "no list"),
        (None, '{"action": {"click": {"index": 1}}}', "no list"),
        (None, '{"action": [{"click": {"ind', "JSON"),
        (TOOLS, called("c1", name="hover"), "hover"),
        (TOOLS, called("c1", '{"mark": '), "JSON"),
        (NEEDS, called("c1"), "mark"),
    ],
)
async def test_an_unreadable_reply_is_asked_for_again_with_what_is_wrong_with_it(
    tmp_path: Path, tools: Any, bad: Any, named: str
) -> None:
    good = called("c1", '{"mark": 1}') if tools else click(1)
    upstream = Upstream(lambda body, count: bad if count == 1 else good)
    asks = browser_use("shoes", 1)
    if tools:
        asks = {"model": "m", "messages": [{"role": "user", "content": "shoes"}], "tools": tools}
    async with serving(upstream, tmp_path) as client:
        got = await client.ask(asks)
    assert got.json()["choices"][0]["message"] == (good if tools else {"role": "assistant", "content": good})
    assert got.json()["usage"]["total_tokens"] == 24
    told = upstream.asked[1]["messages"][-1]
    assert told["role"] == "user"
    assert named in told["content"]
    [episode] = episodes(tmp_path)
    assert episode.steps[0].decision.usage[0].calls == 2


async def test_it_is_asked_for_again_once_and_only_where_that_is_wanted(tmp_path: Path) -> None:
    for repair, calls in ((True, 2), (False, 1)):
        upstream, folder = Upstream(lambda body, count: f"no action, {count}"), tmp_path / str(repair)
        async with serving(upstream, folder, repair=repair) as client:
            said = await client.ask_message(browser_use("shoes", 1))
        assert said["content"] == "no action, 1"
        assert len(upstream.asked) == calls
        assert episodes(folder) == []


async def test_nothing_is_repaired_where_one_candidate_can_be_read(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> str:
        return "I would click" if body["temperature"] == 0.2 else click(3)

    upstream = Upstream(reply)
    async with serving(upstream, tmp_path, by_label("red"), mode="rank", n=3) as client:
        assert await client.ask_click(browser_use("shoes", 1)) == 3
    assert len(upstream.asked) == 3


async def test_an_error_of_the_upstream_is_no_reply_to_repair(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: 429)
    async with serving(upstream, tmp_path) as client:
        got = await client.ask(browser_use("shoes", 1))
    assert (got.status_code, len(upstream.asked)) == (429, 1)


async def test_what_strict_schemas_require_and_may_be_null_is_not_missed(tmp_path: Path) -> None:
    plan = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {"properties": {"action": {"type": "array"}, "plan": plan}, "required": ["action", "plan"]}
    asks = {**browser_use("shoes", 1), "response_format": {"json_schema": {"name": "agent_output", "schema": schema}}}
    upstream = Upstream(lambda body, count: click(1))
    async with serving(upstream, tmp_path) as client:
        await client.ask(asks)
    assert len(upstream.asked) == len(episodes(tmp_path)) == 1


async def test_what_is_not_recorded_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain: Body = {"model": "m", "messages": [{"role": "user", "content": "shoes"}]}
    upstream = Upstream(lambda body, count: '{"action": "click 1"}')
    async with serving(upstream, tmp_path) as client:
        for asks in (plain, plain, browser_use("shoes", 1), browser_use("shoes", 2), plain):
            await client.ask(asks)
    told = [one.getMessage() for one in caplog.records if one.name == "bestofq.serve.app"]
    assert len(told) == 2
    assert "no decision" in told[0]
    assert "no list of objects" in told[1]
