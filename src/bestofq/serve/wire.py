"""Chat Completions as agents send them: which request asks for an agent's next action, and what a reply would do.

browser-use asks by a JSON schema that has the property `action`, and its judge by one that has `verdict`; agents with
tools by `tools`. All else is none of our business.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Verdict
from bestofq.core.irreversible import irreversible
from bestofq.core.observation import Observation
from bestofq.interop.browser_use import calls_of, candidate_of_output, elements_on, goal_in, page_in, verdict_of
from bestofq.interop.chat import heard, replied
from bestofq.interop.nouns import text_of

Json = Mapping[str, Any]
END = b"data: [DONE]\n\n"
GOAL = 2_000  # characters of a goal that no tag parts from the rest
_STEP = re.compile(r"<step_info>\s*Step\s*(\d+)")


class Asked(NamedTuple):
    """What a request asks for. `seen` is what the model is shown now."""

    kind: Literal["schema", "tools", "judge"]
    goal: str
    seen: Observation
    messages: Sequence[Json]
    step: int | None  # from 0, where the request counts

    @property
    def text(self) -> str:
        return "\n".join(text_of(one.get("content")) for one in self.messages)


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
    users = [text_of(one.get("content")) for one in messages if one["role"] == "user"]
    if not users:
        return None
    since = max((number for number, one in enumerate(messages) if one["role"] == "assistant"), default=-1) + 1
    seen = heard(messages[since:], Path())
    if page := page_in(users[-1]):
        seen = seen.model_copy(update={"text": page, "elements": elements_on(page)})
    counted = _STEP.search(users[-1])
    step = int(counted.group(1)) - 1 if counted else None
    return Asked(kind, goal_in(users[-1]) or users[0][:GOAL], seen, messages, step)


def candidate(request: Asked, reply: Json) -> Candidate | None:
    """What a reply (a `chat.completion`) would do, all its actions together; None where it is no valid one."""
    try:
        message = reply["choices"][0]["message"]
        if request.kind == "tools":
            said = replied(message, request.seen, last=True)
            return said if message.get("tool_calls") or text_of(message.get("content")).strip() else None
        output = json.loads(message["content"])
        calls = calls_of(output)
        return candidate_of_output(output, calls, request.seen.elements) if calls else None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def judged(reply: Json | None) -> Verdict | None:
    """What browser-use's judge says; None where it cannot be read."""
    try:
        verdict = verdict_of(json.loads(reply["choices"][0]["message"]["content"])) if reply else None
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return verdict if verdict and verdict.outcome != "unjudged" else None


def call_ids(message: Json) -> list[str]:
    return [one["id"] for one in message.get("tool_calls") or ()]


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
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": index, **one} for index, one in enumerate(calls)]
    for piece, reason in ((delta, None), ({}, choice.get("finish_reason", "stop"))):
        yield as_event({**head, "choices": [{"index": 0, "delta": piece, "finish_reason": reason}]})
    yield as_event({**head, "choices": [], "usage": reply.get("usage")})
    yield END


def as_event(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
