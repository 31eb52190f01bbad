"""A message of Anthropic's API, whose content is blocks, as messages of Chat Completions."""

import json
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
_BLOCKS = ("tool_use", "tool_result", "thinking")


def messages_of_blocks(message: Json) -> list[Json]:
    """A message; each result of a tool in it is one of its own. One without such blocks is as it was."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    if not any(isinstance(one, Mapping) and (one.get("type") in _BLOCKS or "source" in one) for one in parts):
        return [message]
    results = [one for one in parts if one["type"] == "tool_result"]
    rest = [_part(one) for one in parts if one["type"] in ("text", "image")]
    calls = [call_of_block(one) for one in parts if one["type"] == "tool_use"]
    thought = "\n".join(one["thinking"] for one in parts if one["type"] == "thinking")
    found: list[Json] = [{"role": "tool", "tool_call_id": one["tool_use_id"], "content": _said(one)} for one in results]
    if rest or calls:
        more = {"tool_calls": calls, "reasoning_content": thought}
        found.append(
            {"role": message["role"], "content": rest} | {name: value for name, value in more.items() if value}
        )
    return found


def call_of_block(block: Json) -> Json:
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def _said(result: Json) -> Any:
    content = result.get("content")
    return [_part(one) for one in content] if isinstance(content, list) else content


def _part(part: Json) -> Json:
    if part["type"] != "image":
        return part
    source = part["source"]
    url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}
