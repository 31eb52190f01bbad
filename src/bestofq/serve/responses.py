"""The Responses API in the words of Chat Completions: calls of functions, custom tools and the computer,
`previous_response_id`.

Each action of a `computer_call` is a tool call, named by its type. Types as in openai-python (`types/responses`).
"""

import json
from collections.abc import Iterator
from typing import Any

from bestofq.interop.nouns import text_of
from bestofq.serve.wire import ApiAdapter, Json, as_error, sse

_CALLS = ("function_call", "custom_tool_call", "computer_call")
_OWN = {f"{one}_call" for one in ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")}
_OWN |= {"mcp_list_tools", "compaction"}  # what the service does by itself
_WRITTEN = {"function_call": "arguments", "custom_tool_call": "input"}


def as_chat(body: Json) -> Json:
    """A request. What the upstream keeps of earlier turns is one empty reply with its id."""
    said: list[Json] = []
    if words := body.get("instructions"):
        said.append({"role": "system", "content": words})
    if before := body.get("previous_response_id"):
        said.append({"role": "assistant", "content": "", "response_id": before})
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        said += _message(item)
    schema = (body.get("text") or {}).get("format") or {}
    tools = [one for one in body.get("tools") or () if one["type"].startswith(("function", "custom", "computer"))]
    return {
        "messages": said,
        "tools": [{one["type"]: one} for one in tools],
        "tool_choice": body.get("tool_choice"),
        "response_format": {"json_schema": schema},
    }


def _message(item: Json) -> list[Json]:
    """An item of the input as a message; none where it is a thought or a service's own."""
    kind = item.get("type", "message")
    if kind == "message":
        content = item["content"]
        parts = content if isinstance(content, str) else [_part(one) for one in content]
        return [{"role": item["role"], "content": parts}]
    if kind in _CALLS:
        return [{"role": "assistant", "content": None, "tool_calls": _calls(item)}]
    if kind in [f"{one}_output" for one in _CALLS]:
        output = item["output"]
        found = output if isinstance(output, list) else [output]
        shown = [{"type": "text", "text": one} if isinstance(one, str) else _part(one) for one in found]
        return [{"role": "tool", "tool_call_id": item["call_id"], "content": shown}]
    return []


def _part(part: Json) -> Json:
    url = part.get("image_url")
    return {"type": "image_url", "image_url": {"url": url}} if url else part


def _calls(item: Json) -> list[Json]:
    """A call as tool calls: several where the computer is to do several things."""
    if item["type"] == "custom_tool_call":
        return [{"id": item["call_id"], "type": "custom", "custom": {"name": item["name"], "input": item["input"]}}]
    if item["type"] == "function_call":
        functions = [{"name": item["name"], "arguments": item["arguments"]}]
    else:
        acts = item.get("actions") or [item["action"]]
        rest = ({name: value for name, value in one.items() if name != "type"} for one in acts)
        functions = [{"name": one["type"], "arguments": json.dumps(more)} for one, more in zip(acts, rest, strict=True)]
    return [{"id": item["call_id"], "type": "function", "function": one} for one in functions]


def as_completion(reply: Json) -> Json:
    output = reply["output"]
    words = "\n".join(text_of(one["content"]) for one in output if one["type"] == "message")
    calls = [call for one in output if one["type"] in _CALLS for call in _calls(one)]
    others = {one["type"] for one in output}.difference(_CALLS, ("message", "reasoning"))
    message: dict[str, Any] = {"role": "assistant", "content": words, "response_id": reply.get("id")}
    if others - _OWN or (others and not words and not calls):
        message["unknown"] = True
    return {"choices": [{"message": message | ({"tool_calls": calls} if calls else {})}]}


def as_events(reply: Json, _: Json) -> Iterator[bytes]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    events: list[tuple[str, Json]] = [("response.created", {"response": begun})]
    for index, item in enumerate(reply["output"]):
        at = {"output_index": index, "item_id": item.get("id", "")}
        field = _WRITTEN.get(item["type"])
        empty: Json = {"content": []} if item["type"] == "message" else {field: ""} if field else {}
        events.append(("response.output_item.added", {"output_index": index, "item": {**item, **empty}}))
        for place, part in enumerate(item["content"] if item["type"] == "message" else ()):
            here = {**at, "content_index": place}
            if text := part.get("text"):
                events.append(("response.content_part.added", {**here, "part": {**part, "text": ""}}))
                events.append(("response.output_text.delta", {**here, "delta": text, "logprobs": []}))
                events.append(("response.output_text.done", {**here, "text": text, "logprobs": []}))
                events.append(("response.content_part.done", {**here, "part": part}))
        if field:
            kind, written = f"response.{item['type']}_{field}", item[field]
            events.append((f"{kind}.delta", {**at, "delta": written}))
            events.append((f"{kind}.done", {**at, "name": item["name"], field: written}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append((f"response.{reply.get('status', 'completed')}", {"response": reply}))
    for number, (name, values) in enumerate(events):
        yield sse(name, sequence_number=number, **values)


RESPONSES = ApiAdapter("responses", as_chat, as_completion, as_events, as_error, "input")
