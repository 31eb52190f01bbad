"""Chat Completions as agents send them: which request asks for an agent's next action, and what a reply would do.

browser-use asks by a JSON schema that has the property `action`, and its judge by one that has `verdict`; agents with
tools by `tools`. Other requests are not ours. An `ApiAdapter` translates another protocol to this one:
`responses.py`, `anthropic.py`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Verdict
from bestofq.core.observation import Observation
from bestofq.interop.browser_use import calls_of, candidate_of_output, elements_on, goal_in, page_in, tab_in, verdict_of
from bestofq.interop.chat import heard, parse_reply
from bestofq.interop.nouns import json_in, json_of, text_of
from bestofq.safety.irreversible import irreversible
from bestofq.serve.plain import plain_candidate, read_page

Json = Mapping[str, Any]
END = b"data: [DONE]\n\n"
GOAL = 2_000  # characters of a goal that no tag parts from the rest
_ARGUMENT = re.compile(r'"\w+": ')
_MARK = re.compile(
    r'(?:"\w*(?:index|id|element|ref|mark|number|label|node|argument)\w*": "?(?:\w*[e_])?|[\[<])(\d{1,9})\b', re.I
)
_STEP = re.compile(r"<step_info>\s*Step\s*(\d+)")


class ApiAdapter(NamedTuple):
    """A protocol, by what tells it from Chat Completions."""

    path: str  # behind the upstream's address
    as_chat: Callable[[Json], Json]  # a request
    as_completion: Callable[[Json], Json]  # a reply
    as_events: Callable[[Json, Json], Iterator[bytes]]  # a reply to a request, as the stream that its client awaits
    as_error: Callable[[int, str], bytes]  # a status and what was said, in a stream that has begun
    turns: str  # where a request has what was said so far


class Unreadable(Exception):
    """A reply that says no action; in words for the model."""


class DecisionRequest(NamedTuple):
    """What a request asks for. `seen` is what the model is shown now."""

    kind: Literal["schema", "tools", "plain", "judge"]
    goal: str
    seen: Observation
    messages: Sequence[Json]
    step: int | None  # from 0, where the request counts
    required: Mapping[str, Sequence[str]]  # what the schema, or each tool by its name, cannot do without

    @property
    def text(self) -> str:
        return "\n".join(text_of(one.get("content")) for one in self.messages)

    @property
    def replies(self) -> list[Json]:
        """What the model said so far."""
        return [one for one in self.messages if one["role"] == "assistant"]


def parse_request(body: Json, plain: bool = False) -> DecisionRequest | None:
    """None where it is no agent's decision and no judge's verdict. `plain`: other requests are decisions, too."""
    messages: Sequence[Json] = body.get("messages") or []
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema") or {}
    properties = schema.get("properties") or {}
    required = {"": _required_fields(schema)}
    if "verdict" in properties:
        kind: Literal["schema", "tools", "plain", "judge"] = "judge"
    elif "action" in properties:
        kind = "plain" if properties["action"].get("type") in ("string", "object") else "schema"
    elif body.get("tools") and body.get("tool_choice") != "none":
        kind = "tools"
        functions = [one.get("function") or one.get("custom") or {} for one in body["tools"]]
        required = {one.get("name", ""): _required_fields(one.get("parameters") or {}) for one in functions}
    elif plain:
        kind = "plain"
    else:
        return None
    users = [text_of(one.get("content")) for one in messages if one["role"] == "user"]
    since = max((number for number, one in enumerate(messages) if one["role"] == "assistant"), default=-1) + 1
    if not users and not since:
        return None
    _ = [ids_of(one) for one in messages]  # calls of another form raise
    told = messages[since:]
    if not since and len(users) > 1:  # the first one is the goal: a page is known again by its first line
        goes = next(number for number, one in enumerate(told) if one["role"] == "user")
        told = [*told[:goes], *told[goes + 1 :]]
    seen = heard(told, Path())
    latest = next((one for one in reversed(users) if page_in(one)), "".join(users[-1:]))  # warnings may follow it
    if page := page_in(latest):
        seen = seen.model_copy(update={"text": page, "elements": elements_on(page), **tab_in(page)})
    counted = _STEP.search(latest)
    step = int(counted.group(1)) - 1 if counted else None
    goal = goal_in(latest)
    if kind == "plain":
        said, seen = read_page(seen, [*users, *(text_of(one.get("content")) for one in messages)])
        goal = goal or said
    goal = goal or "".join(users[:1])[:GOAL]
    return DecisionRequest(kind, goal, seen, messages, step, required)


def _required_fields(schema: Json) -> list[str]:
    """What an object cannot do without; strict schemas also require what may be null or has a default: not counted."""
    properties = schema.get("properties") or {}
    named = ((one, properties.get(one) or {}) for one in schema.get("required") or ())
    return [one for one, about in named if "default" not in about and "null" not in json.dumps(about)]


def candidate(request: DecisionRequest, reply: Json) -> Candidate | None:
    """What a reply (a `chat.completion`) would do, all its actions together. None where it holds what we do not know,
    which may be valid; Unreadable where it is no valid one."""
    try:
        message = reply["choices"][0]["message"]
        if message.get("unknown"):
            return None
        if request.kind == "tools":
            called = message.get("tool_calls") or ()
            if any("function" not in one and "custom" not in one for one in called):
                return None
            for call in called:
                _check_call(request, call)
            if called or text_of(message.get("content")).strip():
                return parse_reply(message, request.seen, True)
            raise Unreadable("it is empty")
        if request.kind == "plain":
            if words := text_of(message.get("content")).strip():
                return plain_candidate(words, request.seen).model_copy(update={"reply": json_of(message)})
            raise Unreadable("it is empty")
        output = json_in(text_of(message["content"]))
        acts = output.get("action") or []
        if not isinstance(acts, list) or not all(isinstance(one, Mapping) for one in acts):
            raise Unreadable('its `action` is no list of objects such as {"click": {"index": 1}}')
        calls = calls_of(output)
        if missing := [name for name in request.required[""] if name not in output]:
            raise Unreadable(f"it lacks {', '.join(missing)}")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"it is not the JSON that was asked for ({error})") from error
    if not calls:
        raise Unreadable("its list of actions is empty")
    return candidate_of_output(output, calls, request.seen.elements)


def _check_call(request: DecisionRequest, call: Json) -> None:
    """Unreadable where there is no such tool, or it lacks an argument; ValueError where its arguments are no JSON.
    A custom tool takes any text."""
    own = call.get("function") or call["custom"]
    name, given = own["name"], own["arguments"] or {} if call.get("function") else {}
    arguments = json_in(given) if isinstance(given, str) else given
    if name not in request.required and "" not in request.required:  # "": a tool that the endpoint itself knows
        raise Unreadable(f"there is no tool {name}: it is one of {', '.join(request.required)}")
    if missing := [one for one in request.required.get(name, ()) if one not in arguments]:
        raise Unreadable(f"the call of {name} lacks {', '.join(missing)}")


def parse_verdict(wire: ApiAdapter, reply: Json | None) -> Verdict | None:
    """What browser-use's judge says; None where it cannot be read."""
    try:
        said = wire.as_completion(reply)["choices"][0]["message"]["content"] if reply else "null"
        verdict = verdict_of(json_in(said))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return verdict if verdict.outcome != "unjudged" else None


def ids_of(message: Json) -> list[str]:
    """Of a reply: those that the agent's next request repeats."""
    said = [message["response_id"]] if message.get("response_id") else []
    return [*said, *(one["id"] for one in message.get("tool_calls") or () if isinstance(one.get("id"), str))]


def with_ids(reply: Any, new: Mapping[str, str]) -> Any:
    """A reply of any protocol in which these ids are others."""
    if isinstance(reply, list):
        return [with_ids(one, new) for one in reply]
    if not isinstance(reply, Mapping):
        return reply
    named = ("id", "call_id")
    return {
        name: new.get(one, one) if name in named and isinstance(one, str) else with_ids(one, new)
        for name, one in reply.items()
    }


def correct_request(body: Json, turns: str, message: Json, problem: str) -> Json:
    """The request after a reply that was no use, with what is wrong with it. Calls are quoted: nobody answered them."""
    before, said = body[turns], text_of(message.get("content"))
    calls = [one.get("function") or one["custom"] for one in message.get("tool_calls") or ()]
    quoted = f" You called {json.dumps(calls)}." if calls else ""
    told = f"Your reply could not be used: {problem}.{quoted} Reply again, in the form that was asked for."
    more = [{"role": "assistant", "content": said}] if said.strip() else []
    begun = [{"role": "user", "content": before}] if isinstance(before, str) else before
    return {**body, turns: [*begun, *more, {"role": "user", "content": told}]}


def is_final(one: Candidate, seen: Observation) -> bool:
    """Whether one of its actions seems irreversible, by its words and the element that any argument numbers."""
    nowhere = Observation(url="", title="", text="", elements=())
    named = (_ARGUMENT.sub("", action.partition(" ")[2]) for action in one.label.split("; "))
    marks = map(int, _MARK.findall(one.label))  # of calls that are none of our actions
    return any(irreversible(Click(target=words), nowhere) for words in named if words) or any(
        irreversible(Click(mark=mark), seen) for mark in marks if mark
    )


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


def as_events(reply: Json, request: Json) -> Iterator[bytes]:
    """A whole reply as the stream that a client with `stream` awaits."""
    head = {name: value for name, value in reply.items() if name not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for number, choice in enumerate((reply["choices"][0], *reply["choices"][1:])):
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": index, **one} for index, one in enumerate(calls)]
        rest = {name: value for name, value in choice.items() if name != "message"}  # log-probabilities
        end = {"delta": {}, "finish_reason": choice.get("finish_reason", "stop")}
        for piece in ({**rest, "delta": delta, "finish_reason": None}, end):
            yield as_event({**head, "choices": [{**piece, "index": number}]})
    if (request.get("stream_options") or {}).get("include_usage"):
        yield as_event({**head, "choices": [], "usage": reply.get("usage")})
    yield END


def as_error(status: int, message: str) -> bytes:
    return as_event({"error": {"code": status, "message": message}}) + END


def as_event(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def sse(event: str, **values: Any) -> bytes:
    """An event with a name, as the protocols after Chat Completions send them."""
    return f"event: {event}\n".encode() + as_event({"type": event, **values})


CHAT = ApiAdapter("chat/completions", lambda body: body, lambda reply: reply, as_events, as_error, "messages")
