"""The JSON in a model's reply, as models write it: in words or a fence, after drafts, in a tool call, with slips."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from json_repair import repair_json

from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply, remove_thoughts

T = TypeVar("T")
MAX_REPAIR_CHARACTERS, MAX_REPAIR_BRACKETS = 50_000, 300  # the time of a repair grows with their product
_START = re.compile(r"""\{(?=\s*(?:\\?["'“}]|\w+\s*:))|\[(?=\s*\{)""")
_DECODER = json.JSONDecoder(strict=False)  # allows line breaks within strings
_ESCAPED = re.compile(r'"?\s*[\[{](?:\\[nrt]|[\s\[{])*\\"')  # the beginning of JSON that is a string of JSON
_WRONG_ESCAPE = re.compile(r"""(\\["\\/])|\\(?=[^A-Za-z0-9\s'])""")
_NO_NUMBER = re.compile(r"""(["']\s*:\s*)(\+\d[\d-]*|0\d[\d-]*)(?=\s*[,}\]])""")  # a zip code, a telephone number
_BETWEEN = re.compile(r"(?:<[^<>]*>|[\W\d_]|json|candidate|option|action)*+", re.I)  # items of a list without brackets
_NUMBER = re.compile(r".*\[(\d{1,9})\]\s*|[^\[]*\[(\d{1,9})\][^\[]*|\D*(\d{1,9})\D*")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "action_input")  # of a tool's call


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
    """Return the whole number that a model wrote as "7", "[7] Mug" or "Mug [7]", and any other value as it is."""
    number = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return int(next(filter(None, number.groups()))) if number else value


def values_of(text: str, *, repair: bool = True) -> list[Any]:
    """The JSON objects and lists of a text in their order. One that is not valid JSON is repaired, up to a fence.
    Objects without lists that follow each other are one list. Without `repair`, all complete objects are one."""
    if _ESCAPED.match(text.strip()):
        with suppress(ValueError):
            text = _DECODER.decode('"' + text.strip().strip('"') + '"')
    end = position = 0
    found: list[Any] = []
    items: list[Any] = []
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
            value = _clean(value, repair)
            item = isinstance(value, dict) and list not in map(type, value.values())
            if item and items and _BETWEEN.fullmatch(text, end, start.start()):
                found[-1] = items = [*items, value]
            else:
                items = [value] if item else []
                found.append(value)
            end = position
    return found if repair or not found else [found]


def _repair(text: str) -> list[Any]:
    if len(text) > MAX_REPAIR_CHARACTERS or text.count("{") + text.count("[") > MAX_REPAIR_BRACKETS:
        raise ReplyError("the reply's JSON cannot be used: it is too long or too deep")
    text = _NO_NUMBER.sub(r'\1"\2"', _WRONG_ESCAPE.sub(r"\1", text))
    if len(re.findall(r'(?<!\\)"', text)) % 2:
        raise ReplyError("the reply is not valid JSON: a string has no end")
    try:
        value: Any = repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"the reply's JSON cannot be used: {error}") from error
    several = isinstance(value, list) and value and (text[0] == "{" or isinstance(value[0], list))
    return list(map(_clean, value if several else [value]))


def _clean(value: Any, repair: bool = True) -> Any:
    """Replace half characters, and read tool calls."""
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _read_calls(json.loads(text), repair)
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise ReplyError(f"the reply's JSON cannot be used: {error}") from error


def _read_calls(value: Any, repair: bool) -> Any:
    """Replace each `{"name": …, "arguments": …}` by its arguments, an object with the name as its type."""
    if isinstance(value, list):
        return [_read_calls(item, repair) for item in value]
    if not isinstance(value, dict):
        return value
    call = {name: _read_calls(inner, repair) for name, inner in value.items()}
    if isinstance(call.get("function"), dict):
        return call["function"]
    for field in call.keys() & _ARGUMENTS:
        given = call[field] or {}
        given = [*values_of(given, repair=repair), given][0] if isinstance(given, str) else given
        if isinstance(given, dict):
            del call[field]
            call |= {"type": call.pop("name"), **given} if "name" in call else given
        elif len(call) == 2 and "name" in call:
            return given if repair or isinstance(given, list) else None
    return call
