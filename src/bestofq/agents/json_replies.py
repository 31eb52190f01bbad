"""The JSON in a model's reply, as models write it: in words or a fence, after drafts, in a tool call, with slips."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from json_repair import repair_json

from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, remove_thoughts

T = TypeVar("T")
MAX_REPAIR_CHARACTERS, MAX_REPAIR_BRACKETS = 50_000, 300  # the time of a repair grows with their product
_START = re.compile(r"""\{(?=\s*(?:\\?["'“}]|\w+\s*:))|\[(?=\s*\{)""")
_DECODER = json.JSONDecoder(strict=False)  # allows line breaks within strings
_CALL = {"name", "arguments"}, {"name", "parameters"}


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with all of these properties and no other, as strict structured output wants it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def json_of(reply: Reply, read: Callable[[dict[str, Any]], T]) -> T:
    """Return what `read` makes of the last JSON object that it accepts. ReplyError as `read_json`."""

    def read_object(value: Any) -> T:
        value = value[-1] if isinstance(value, list) and value else value
        if not isinstance(value, dict):
            raise ReplyError("the reply holds no JSON object")
        return read(value)

    return read_json(reply, read_object)


def read_json(reply: Reply, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of the last JSON object or list after a reply's thinking that it accepts.

    ReplyError with what is wrong with the last one, in words for the model, if it accepts none.
    """
    if reply.finish == "empty":
        raise ReplyError("the reply was empty")
    if reply.finish == "refused":
        raise ReplyError(f"the reply was refused{f': {reply.text}' if reply.text else ''}")
    problem = None
    for value in reversed(values_of(remove_thoughts(reply.text), repair=reply.finished)):
        try:
            return read(value)
        except ReplyError as error:
            problem = problem or error
    if not reply.finished:
        raise ReplyError(f"the reply was cut off after {reply.tokens} tokens: be briefer") from problem
    raise problem or ReplyError("the reply holds no JSON object (write names in double quotes)")


def to_number(value: Any) -> Any:
    """Return the whole number that a model wrote as "7", "[7]" or "Mug [7]", and any other value as it is."""
    number = re.fullmatch(r".*\[(\d{1,9})\]\s*|\D*(\d{1,9})\D*", value) if isinstance(value, str) else None
    return int(number[1] or number[2]) if number else value


def values_of(text: str, *, repair: bool = True) -> list[Any]:
    """The JSON objects and lists of a text in their order. One that is not valid JSON is repaired, up to a fence.
    Without `repair`, all complete objects are one list."""
    position = 0
    found: list[Any] = []
    while start := _START.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            if repair:
                broken = text[start.start() :].partition("```")[0]
                position = start.start() + len(broken)
                found += _repair(broken)
            else:
                position = start.end()
        else:
            found.append(_clean(value))
    return found if repair or not found else [found]


def _repair(text: str) -> list[Any]:
    if len(text) > MAX_REPAIR_CHARACTERS or text.count("{") + text.count("[") > MAX_REPAIR_BRACKETS:
        raise ReplyError("the reply's JSON cannot be used: it is too long or too deep")
    if len(re.findall(r'(?<!\\)"', text)) % 2:
        raise ReplyError("the reply is not valid JSON: a string has no end")
    try:
        value: Any = repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"the reply's JSON cannot be used: {error}") from error
    several = isinstance(value, list) and value and (text[0] == "{" or isinstance(value[0], list))
    return list(map(_clean, value if several else [value]))


def _clean(value: Any) -> Any:
    """Replace half characters, and read tool calls."""
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _read_calls(json.loads(text))
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise ReplyError(f"the reply's JSON cannot be used: {error}") from error


def _read_calls(value: Any) -> Any:
    """Replace `{"name": …, "arguments": …}` by its arguments, an object with the name as its type."""
    if isinstance(value, list):
        return [_read_calls(item) for item in value]
    if not isinstance(value, dict) or set(value) not in _CALL:
        return value
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        arguments = [*values_of(arguments), arguments][0]
    return {"type": value["name"], **arguments} if isinstance(arguments, dict) else arguments
