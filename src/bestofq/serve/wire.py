"""Chat Completions as agents send them: which request asks for an agent's next action, and what a reply would do.

browser-use asks by a JSON schema that has the property `action`, and its judge by one that has `verdict`; agents with
tools by `tools`. All else is none of our business.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from bestofq.core.actions import Answer, Click, Other
from bestofq.core.decision import Candidate
from bestofq.core.irreversible import irreversible
from bestofq.core.observation import Observation

Json = Mapping[str, Any]
END = b"data: [DONE]\n\n"
GOAL = 2_000  # characters of a goal that no tag parts from the rest
_REQUEST = re.compile(r"<user_request>\s*(.*?)\s*</user_request>", re.S)
_STEP = re.compile(r"<step_info>\s*Step\s*(\d+)")
_BROWSER = re.compile(r"<browser_state>\s*(.*?)\s*</browser_state>", re.S)


class Asked(NamedTuple):
    """What a request asks for. `page` is what the model is shown now, as text."""

    kind: Literal["schema", "tools", "judge"]
    goal: str
    page: str
    messages: Sequence[Json]
    step: int | None  # from 0, where the request counts

    @property
    def text(self) -> str:
        return "\n".join(map(text_of, self.messages))


def asked(body: Json) -> Asked | None:
    """None where it is no agent's decision and no judge's verdict."""
    messages: Sequence[Json] = body.get("messages") or []
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema") or {}
    properties = schema.get("properties") or {}
    if "verdict" in properties:
        kind: Literal["schema", "tools", "judge"] = "judge"
    elif "action" in properties:
        kind = "schema"
    elif body.get("tools") and body.get("tool_choice") != "none":
        kind = "tools"
    else:
        return None
    users = [text_of(one) for one in messages if one.get("role") == "user"]
    if not users:
        return None
    tagged = _REQUEST.search(users[-1])
    seen = _BROWSER.search(users[-1])
    page = seen.group(1) if seen else text_of(messages[-1])
    counted = _STEP.search(users[-1])
    step = int(counted.group(1)) - 1 if counted else None
    return Asked(kind, tagged.group(1) if tagged else users[0][:GOAL], page, messages, step)


def text_of(message: Json) -> str:
    """The words of a message, its pictures left out."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def candidate(request: Asked, reply: Json) -> Candidate | None:
    """What a reply (a `chat.completion`) would do; None where it is no valid one."""
    try:
        message = reply["choices"][0]["message"]
        return _by_schema(request, message["content"]) if request.kind == "schema" else _by_tools(message)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _by_schema(request: Asked, content: str) -> Candidate | None:
    """browser-use puts up to five actions, `{name: parameters}`, into one reply; together they are one decision."""
    said = json.loads(content)
    actions = [(name, values or {}) for one in said["action"] for name, values in one.items() if values is not None]
    if not actions:
        return None
    label = "; ".join(_in_words(name, values, request.page) for name, values in actions)
    thought, note = said.get("next_goal") or said.get("thinking") or "", said.get("memory") or ""
    return Candidate(action=Other(text=_same(actions)), label=label, thought=thought, note=note, reply=content)


def _by_tools(message: Json) -> Candidate | None:
    """All tool calls of one reply are one decision; words without a call are the agent's answer."""
    content = message.get("content") or ""
    calls = [(one["function"]["name"], json.loads(one["function"]["arguments"] or "{}")) for one in calls_of(message)]
    if calls:
        label = "; ".join(_in_words(name, values, "") for name, values in calls)
        return Candidate(action=Other(text=_same(calls)), label=label, thought=content)
    return Candidate(action=Answer(text=content), label=f'answer "{content}"') if content.strip() else None


def calls_of(message: Json) -> Sequence[Json]:
    return message.get("tool_calls") or ()


def _same(actions: Iterable[tuple[str, Any]]) -> str:
    """Equal for the same actions, however their JSON is written."""
    return json.dumps(list(actions), sort_keys=True, ensure_ascii=False)


def _in_words(name: str, values: Any, page: str) -> str:
    """`click button Buy now` for `{"click": {"index": 7}}`, by what the page calls its element."""
    if not isinstance(values, dict):
        return f"{name} {values}"
    words = [
        _named(value, page) if key in ("index", "element") and isinstance(value, int) else str(value)
        for key, value in values.items()
    ]
    return " ".join((name, *words))


def _named(index: int, page: str) -> str:
    """Tag, attributes and words of an element of browser-use's list: `[7]<button id=x />`, its words on lines below it
    that are further in, up to the next element."""
    found = re.search(rf"^(\t*)\*?\[{index}\]<(.*?)/?>(.*(?:\n\1\t+[^\t\[*\n].*)*)", page, re.M)
    return " ".join(" ".join(found.groups()[1:]).split()) if found else f"[{index}]"


def is_final(one: Candidate) -> bool:
    """Whether one of its actions seems irreversible, by its words."""
    nowhere = Observation(url="", title="", text="", elements=())
    named = (action.partition(" ")[2] for action in one.label.split("; "))
    return any(irreversible(Click(target=words), nowhere) for words in named if words)


def total(replies: Sequence[Json]) -> dict[str, Any]:
    """`usage` of all replies together: every number summed, those of nested counts too."""
    found: dict[str, Any] = {}
    for reply in replies:
        _add(found, reply.get("usage") or {})
    return found


def _add(found: dict[str, Any], usage: Json) -> None:
    for name, value in usage.items():
        if isinstance(value, Mapping):
            _add(found.setdefault(name, {}), value)
        elif isinstance(value, int | float):
            found[name] = (found.get(name) or 0) + value


def as_events(reply: Json) -> Iterator[bytes]:
    """A whole reply as the stream that a client with `stream` awaits."""
    head = {name: reply[name] for name in ("id", "created", "model") if name in reply}
    head["object"] = "chat.completion.chunk"
    choice = reply["choices"][0]
    delta = dict(choice["message"])
    if calls := calls_of(delta):
        delta["tool_calls"] = [{"index": index, **one} for index, one in enumerate(calls)]
    for piece, reason in ((delta, None), ({}, choice.get("finish_reason", "stop"))):
        yield as_event({**head, "choices": [{"index": 0, "delta": piece, "finish_reason": reason}]})
    yield as_event({**head, "choices": [], "usage": reply.get("usage")})
    yield END


def as_event(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
