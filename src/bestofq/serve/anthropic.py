"""Anthropic's Messages in the words of Chat Completions: `tool_use` and `tool_result`.

Types as in anthropic-sdk-python (`types/message.py`, `types/raw_*_event.py`).
"""

import json
from collections.abc import Iterator
from typing import Any

from bestofq.interop.blocks import call_of_block, messages_of_blocks
from bestofq.interop.nouns import text_of
from bestofq.serve.wire import ApiAdapter, Json, sse


def as_chat(body: Json) -> Json:
    tools = [
        {"function": {"name": one.get("name", ""), "parameters": one["input_schema"]}} if "input_schema" in one else one
        for one in body.get("tools") or ()
    ]
    said: list[Json] = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    for message in body["messages"]:
        said += messages_of_blocks(message)
    return {"messages": said, "tools": tools, "tool_choice": (body.get("tool_choice") or {}).get("type")}


def as_completion(reply: Json) -> Json:
    content = reply["content"]
    words = text_of([one for one in content if one["type"] == "text"])
    calls = [call_of_block(one) for one in content if one["type"] == "tool_use"]
    others = {one["type"] for one in content} - {"text", "tool_use", "thinking", "redacted_thinking"}
    message: dict[str, Any] = {"role": "assistant", "content": words}
    if others and not words and not calls:
        message["unknown"] = True
    return {"choices": [{"message": message | ({"tool_calls": calls} if calls else {})}]}


def as_events(reply: Json, _: Json) -> Iterator[bytes]:
    yield sse("message_start", message={**reply, "content": [], "stop_reason": None, "stop_sequence": None})
    for index, block in enumerate(reply["content"]):
        empty, deltas = _pieces(block)
        yield sse("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield sse("content_block_delta", index=index, delta=delta)
        yield sse("content_block_stop", index=index)
    end = {"stop_reason": reply.get("stop_reason"), "stop_sequence": reply.get("stop_sequence")}
    yield sse("message_delta", delta=end, usage=reply.get("usage") or {})
    yield sse("message_stop")


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "tool_use":
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [thought, signed]
    return block, []


def as_error(_: int, message: str) -> bytes:
    return sse("error", error={"type": "api_error", "message": message})


MESSAGES = ApiAdapter("messages", as_chat, as_completion, as_events, as_error, "messages")
