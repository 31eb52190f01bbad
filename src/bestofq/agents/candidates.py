"""Several candidates in one JSON reply, as a chat model is asked for them (Best-of-Q, A.5 and Fig. 7).

    {"candidates": [{"thought": "…", "note": "…", "action": {"type": "click", "element": 7}}, …]}

with exactly the paper's eight web actions. An element is a mark of the page, or words that a localizer finds (A.1).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from bestofq.agents.prompting import By
from bestofq.core.actions import ACTION, Action, Targeted, action_text
from bestofq.core.decision import Candidate
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Observation

_FIELDS: Mapping[str, Sequence[str]] = {
    "click": ("element",),
    "write": ("element", "text", "enter"),
    "scroll": ("direction",),
    "go_back": (),
    "answer": ("text",),
    "wait": ("seconds",),
    "refresh": (),
    "restart": (),
}


def candidates_schema(n: int, by: By) -> dict[str, Any]:
    """JSON Schema of a reply with 1 to n candidates, within what strict structured output allows: every property is
    required, no other is let in."""
    kinds: dict[str, dict[str, Any]] = {
        "element": {"type": "integer"} if by == "mark" else {"type": "string"},
        "text": {"type": "string"},
        "enter": {"type": "boolean"},
        "direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
        "seconds": {"type": "number"},
    }
    actions = [
        _object({"type": {"type": "string", "enum": [name]}, **{field: kinds[field] for field in fields}})
        for name, fields in _FIELDS.items()
    ]
    text = {"type": "string"}
    candidate = _object({"thought": text, "note": text, "action": {"anyOf": actions}})
    return _object({"candidates": {"type": "array", "items": candidate, "minItems": 1, "maxItems": n}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_candidates(data: Any, observation: Observation, n: int, by: By) -> list[Candidate]:
    """The valid candidates of a reply, the first n with distinct actions. ReplyError with every complaint when there
    is none, in words that help the model mend it."""
    listed = data.get("candidates") if isinstance(data, dict) else data
    if not isinstance(listed, list) or not listed:
        raise ReplyError('expected an object with a list "candidates" of at least one candidate')
    found: dict[str, Candidate] = {}
    complaints = []
    for number, entry in enumerate(listed, 1):
        try:
            candidate = _candidate(entry, observation, by)
        except ReplyError as error:
            complaints.append(f"candidate {number}: {error}")
        else:
            found.setdefault(candidate.action.model_dump_json(), candidate)
    if not found:
        raise ReplyError("; ".join(complaints))
    return list(found.values())[:n]


def _candidate(entry: Any, observation: Observation, by: By) -> Candidate:
    if not isinstance(entry, dict) or not isinstance(entry.get("action"), dict):
        raise ReplyError('expected "thought", "note" and "action"')
    action = _action(entry["action"], observation, by)
    return Candidate(
        action=action,
        label=action_text(action, observation.elements),
        thought=_words(entry.get("thought")),
        note=_words(entry.get("note")),
    )


def _action(given: Mapping[str, Any], observation: Observation, by: By) -> Action:
    kind = str(given.get("type"))
    if kind not in _FIELDS:
        raise ReplyError(f"the action type {kind!r} is none of {', '.join(_FIELDS)}")
    values = {field: given[field] for field in _FIELDS[kind] if given.get(field) is not None}
    if "element" in values:
        values["mark" if by == "mark" else "target"] = values.pop("element")
    try:
        action = ACTION.validate_python({"kind": kind, **values})
    except ValidationError as error:
        problem = error.errors()[0]
        raise ReplyError(f"{kind}: {'.'.join(map(str, problem['loc'][1:]))} {problem['msg']}") from error
    if isinstance(action, Targeted) and action.mark is not None:
        marks = [element.mark for element in observation.elements]
        if action.mark not in marks:
            raise ReplyError(f"there is no element {action.mark}: the page has {len(marks)} marked elements")
    return action


def _words(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
