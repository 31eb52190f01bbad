"""The Responses API and Anthropic's Messages through `serve`: what they decide, their streams, whose step it is."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.serve.agents import TOOLS, Body, Upstream, by_label, episodes, serving

CLICK: Any = {"type": "function", "name": "click", "parameters": {"type": "object"}, "strict": False}
COMPUTER: Any = {"type": "computer_use_preview", "display_width": 9, "display_height": 9, "environment": "browser"}
USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


def response(number: int, *output: Mapping[str, Any]) -> dict[str, Any]:
    counts = {**USAGE, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"type": "response", "id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m",
            "status": "completed", "output": [*output], "usage": counts, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": []}  # fmt: skip


def called(number: int, **arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "click",
            "arguments": json.dumps(arguments), "status": "completed"}  # fmt: skip


def said(number: int, *content: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "model": "m", "content": [*content],
            "stop_reason": "tool_use", "stop_sequence": None, "usage": USAGE}  # fmt: skip


def used(number: int, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "click", "input": arguments}


async def test_a_call_of_the_responses_api_is_a_decision_and_the_previous_response_tells_whose(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: response(count, called(count, on=count)))
    async with serving(upstream, tmp_path) as agent, agent.openai() as client:
        latest: dict[str, Any] = {}
        for step in range(3):
            for agent in ("a", "b"):  # in turns, with the same goal
                more: Any = {"input": "buy shoes"}
                if step:
                    [call] = latest[agent].output
                    seen = {"type": "function_call_output", "call_id": call.call_id, "output": f"{agent} {step}"}
                    more = {"input": [seen], "previous_response_id": latest[agent].id}
                latest[agent] = await client.responses.create(model="m", tools=[CLICK], **more)
    found = [[step.observation.text for step in episode.steps] for episode in episodes(tmp_path)]
    assert sorted(found) == [["buy shoes", "a 1", "a 2"], ["buy shoes", "b 1", "b 2"]]
    assert {episode.task.goal for episode in episodes(tmp_path)} == {"buy shoes"}
    assert episodes(tmp_path)[0].steps[0].decision.usage[0].tokens_in == 10


async def test_actions_of_a_computer_are_one_decision_and_q_chooses_among_them(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> dict[str, Any]:
        acts = [{"type": "click", "button": "left", "x": 1, "y": 2}, {"type": "type", "text": "shoes"}]
        if "temperature" not in body:
            acts = [{"type": "wait"}]
        call = {"type": "computer_call", "id": "cu", "call_id": f"call_{count}", "actions": acts, "status": "completed"}
        return response(count, call)

    upstream = Upstream(reply)
    async with serving(upstream, tmp_path, by_label("shoes"), mode="rank", n=2) as agent, agent.openai() as client:
        got = await client.responses.create(model="m", input="buy", tools=[COMPUTER], truncation="auto")
    assert got.output[0].type == "computer_call"
    assert (got.usage.input_tokens, got.usage.total_tokens) == (20, 24) if got.usage else False
    [step] = episodes(tmp_path)[0].steps
    labels = [one.label for one in step.decision.candidates]
    assert labels == ["wait", 'click {"button": "left", "x": 1, "y": 2}; type {"text": "shoes"}']
    assert step.decision.chosen == 1


async def test_a_streamed_response_is_whole_and_an_error_is_one(tmp_path: Path) -> None:
    text = {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "so", "annotations": []}]}  # fmt: skip
    upstream = Upstream(lambda body, count: 429 if count == 1 else response(count, text, called(count)))
    async with serving(upstream, tmp_path) as agent, agent.openai() as client:
        stream = await client.responses.create(model="m", input="buy shoes", tools=[CLICK], stream=True)
        events = [event async for event in stream]
    assert len(upstream.asked) == 2  # the client tried again by itself
    assert "stream" not in upstream.asked[1]
    deltas = [event.delta for event in events if event.type.endswith(".delta")]  # type: ignore[union-attr]
    assert deltas == ["so", "{}"]
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [one.type for one in events[-1].response.output] == ["message", "function_call"]  # type: ignore[union-attr]
    assert [event.sequence_number for event in events] == [*range(len(events))]


async def test_responses_that_are_no_decision_pass_through(tmp_path: Path) -> None:
    raw = json.dumps(response(1, called(1)), indent=2)
    upstream = Upstream(lambda body, count: json.loads(raw))
    async with serving(upstream, tmp_path) as agent, agent.openai() as client:
        await client.responses.create(model="m", input="sum up")
        await client.responses.create(model="m", input="look it up", tools=[{"type": "web_search"}])
    assert episodes(tmp_path) == []


async def test_a_tool_used_by_claude_is_a_decision_whose_id_tells_the_episode(tmp_path: Path) -> None:
    upstream = Upstream(lambda body, count: said(count, {"type": "text", "text": "so"}, used(count, on=count)))
    tools = [{"name": "click", "input_schema": {"type": "object", "required": ["on"]}}]
    talks: dict[str, list[Any]] = {agent: [{"role": "user", "content": "buy shoes"}] for agent in "ab"}
    async with serving(upstream, tmp_path) as client:
        for step in range(3):
            for agent, talk in talks.items():
                body = {"model": "m", "max_tokens": 99, "system": "Be quick.", "messages": talk, "tools": tools}
                got = (await client.post("/v1/messages", json=body)).json()
                seen = {"type": "tool_result", "tool_use_id": got["content"][1]["id"], "content": f"{agent} {step}"}
                talk += [{"role": "assistant", "content": got["content"]}, {"role": "user", "content": [seen]}]
        streamed = await client.post("/v1/messages", json={**body, "stream": True})
    found = [[step.observation.text for step in episode.steps] for episode in episodes(tmp_path)]
    assert sorted(found)[:2] == [["buy shoes", "a 0", "a 1"], ["buy shoes", "b 0", "b 1", "b 2"]]
    decision = episodes(tmp_path)[0].steps[0].decision
    assert (decision.candidate.thought, decision.usage[0].tokens_out) == ("so", 2)
    assert decision.candidate.label.startswith("click ")
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "content_block_start",
        "content_block_delta", "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert json.loads(events[5]["delta"]["partial_json"]) == {"on": 7}


async def test_a_call_that_lacks_what_its_tool_requires_is_repaired_in_each_protocol(tmp_path: Path) -> None:
    def reply(body: Body, count: int) -> dict[str, Any]:
        given = {"on": 1} if count % 2 == 0 else {}
        return said(count, used(count, **given)) if "max_tokens" in body else response(count, called(count, **given))

    needs = {"type": "object", "required": ["on"]}
    upstream = Upstream(reply)
    async with serving(upstream, tmp_path) as client:
        talk = [{"role": "user", "content": "buy shoes"}]
        claude = {"max_tokens": 9, "messages": talk, "tools": [{"name": "click", "input_schema": needs}]}
        got = (await client.post("/v1/messages", json=claude)).json()
        assert got["content"][0]["input"] == {"on": 1}
        openai = {"input": "buy hats", "tools": [{**CLICK, "parameters": needs}]}
        got = (await client.post("/v1/responses", json=openai)).json()
        assert got["output"][0]["arguments"] == '{"on": 1}'
    assert "lacks on" in upstream.asked[1]["messages"][-1]["content"]
    assert "lacks on" in upstream.asked[3]["input"][-1]["content"]


PATCH = {"name": "apply_patch", "input": "*** Begin Patch"}
UNKNOWN = [
    (
        "chat/completions",
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "new", "new": {}}]},
    ),
    ("responses", response(1, {"type": "shell_call", "id": "s1", "call_id": "c1", "action": {"commands": ["ls"]}})),
    ("messages", said(1, {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})),
]


def asking(path: str) -> dict[str, Any]:
    """With a tool that is a function, and a custom one."""
    custom = {"name": "apply_patch"}
    if path == "responses":
        return {"input": "fix it", "tools": [CLICK, {"type": "custom", **custom}]}
    tools = [*TOOLS, {"type": "custom", "custom": custom}]
    if path == "messages":
        tools = [{"name": "click", "input_schema": {"type": "object"}}]
    return {"messages": [{"role": "user", "content": "fix it"}], "tools": tools}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_call_of_a_custom_tool_is_a_decision(tmp_path: Path, stream: bool) -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", **PATCH}
    call = {"id": "c1", "type": "custom", "custom": PATCH}
    replies = {"responses": response(1, item), "chat": {"role": "assistant", "content": None, "tool_calls": [call]}}
    upstream = Upstream(lambda body, count: replies["responses" if "input" in body else "chat"])
    async with serving(upstream, tmp_path) as client:
        for path in ("chat/completions", "responses"):
            asks = {**asking(path), "stream": stream}
            got = await client.post(f"/sessions/{path[:4]}/v1/{path}", json=asks)
            assert "*** Begin Patch" in got.text
    assert len(upstream.asked) == 2
    labels = [step.decision.candidate.label for episode in episodes(tmp_path) for step in episode.steps]
    assert labels == ['apply_patch {"input": "*** Begin Patch"}'] * 2
    if stream:
        events = [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: ")]
        assert [one["delta"] for one in events if one["type"] == "response.custom_tool_call_input.delta"] == [
            "*** Begin Patch"
        ]


@pytest.mark.parametrize(("path", "reply"), UNKNOWN)
async def test_a_reply_of_a_kind_that_we_do_not_know_passes_as_it_is(tmp_path: Path, path: str, reply: Any) -> None:
    upstream = Upstream(lambda body, count: reply)
    async with serving(upstream, tmp_path) as client:
        got = (await client.post(f"/v1/{path}", json=asking(path))).json()
    assert (got["choices"][0]["message"] if "choices" in got else got) == reply
    assert len(upstream.asked) == 1
    assert episodes(tmp_path) == []


async def test_an_error_after_a_comment_is_one_of_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestofq.serve.app.KEPT_ALIVE", 0.05)

    async def slow() -> int:
        await asyncio.sleep(0.2)
        return 529

    tools = [{"name": "click", "input_schema": {"type": "object"}}]
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "shoes"}], "tools": tools}
    async with serving(Upstream(lambda body, count: slow()), tmp_path) as client:
        for path in ("messages", "chat/completions"):
            text = (await client.post(f"/v1/{path}", json=body)).text
            lines = [line for line in text.splitlines() if line not in ("", ": waiting")]
            if path == "messages":
                assert lines.pop(0) == "event: error"
                assert '{"type": "error", "error": {"type": "api_error", "message": ' in lines[0]
            else:
                assert lines.pop() == "data: [DONE]"
            [error] = lines
            assert "busy" in json.loads(error.removeprefix("data: "))["error"]["message"]
