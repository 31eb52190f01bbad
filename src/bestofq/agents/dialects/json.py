"""Several candidates in one JSON reply of a chat model (Best-of-Q, A.5 and Fig. 7).

    {"candidates": [{"thought": "…", "note": "…", "action": {"type": "click", "element": 7}}, …]}

with the actions that real pages need, or exactly the paper's eight. An element is a mark of the page, words that a
localizer finds (A.1), or a point of the page's picture, `{"type": "click", "x": 352, "y": 348}`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from bestofq.agents.dialects.commands import parse_action
from bestofq.agents.json_replies import object_schema, read_json, to_number, values_of
from bestofq.agents.prompting import Actions, By, history_lines, page_values, picture_unit, render
from bestofq.core.actions import ACTION, Action, Marked, action_text, element_of, identity, on_mark
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Reply
from bestofq.core.observation import Observation, Point
from bestofq.core.picture import Picture

MOST_MARKS = 200  # that a schema names; OpenAI-compatible servers take some 500 values
_FIELDS: Mapping[str, Sequence[str]] = {
    "click": (),
    "write": ("text", "enter"),
    "press": ("keys",),
    "scroll": ("direction",),
    "upload": ("file",),
    "switch_tab": ("tab",),
    "goto": ("url",),
    "go_back": (),
    "answer": ("text",),
    "wait": ("seconds",),
    "refresh": (),
    "restart": (),
}
_PAPER = ("click", "write", "scroll", "go_back", "answer", "wait", "refresh", "restart")
_TARGETED = ("click", "write", "upload")
_OPTIONAL = ("press", "scroll")  # may name a mark
_SYNONYMS = {
    **dict.fromkeys(("left_click", "click_element", "click_element_by_index", "tap"), "click"),
    **dict.fromkeys(("back", "goback", "navigate_back"), "go_back"),
    **dict.fromkeys(("type", "fill", "input", "input_text", "type_text", "enter_text", "set_value"), "write"),
    **dict.fromkeys(("select", "select_option", "select_dropdown"), "write"),
    **dict.fromkeys(("press_key", "press_keys", "keypress", "key", "keys", "send_keys"), "press"),
    **dict.fromkeys(("go_to", "go_to_url", "navigate", "open_url"), "goto"),
    **dict.fromkeys(("tab", "switch", "select_tab"), "switch_tab"),
    **dict.fromkeys(("done", "finish", "stop", "respond", "final_answer"), "answer"),
    "upload_file": "upload",
    "reload": "refresh",
}
_NAMES: Mapping[str, Sequence[str]] = {  # of fields, in other words
    "type": ("action", "name", "kind", "action_type", "command", "tool", "function"),
    "element": ("index", "id", "mark", "element_id", "element_index", "ref", "bid", "number", "n", "target"),
    "text": ("value", "content", "input", "query", "answer"),
    "enter": ("press_enter", "submit"),
    "keys": ("key",),
    "file": ("path",),
    "tab": ("index",),
}
_KINDS: Mapping[str, dict[str, Any]] = {
    **{name: {"type": "integer"} for name in ("x", "y", "tab")},
    **{name: {"type": "string"} for name in ("text", "keys", "file", "url")},
    "enter": {"type": "boolean"},
    "direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
    "seconds": {"type": "number"},
}


def candidates_user(state: State, history: int, pictures: int = 1) -> str:
    """Task, the last `history` actions with their notes, and the page. `pictures` follow it."""
    lines = history_lines(state, history)
    skipped = len(state.decisions) - len(lines)
    return render("candidates_user", history=lines, skipped=skipped, pictures=pictures, **page_values(state))


def candidates_schema(
    n: int, by: By, marks: Sequence[int] | None = None, *, thoughts: bool = True, kinds: Sequence[str] = _PAPER
) -> dict[str, Any]:
    """JSON Schema of a reply with n candidates, as strict structured output wants it: every property required.

    With `marks`, an element is one of these, and there is no action on an element if there are none. `thoughts`: each
    candidate has a thought and a note. `kinds`: the actions that there are.
    """
    types = {**_KINDS, "element": {"type": "integer"} if by == "mark" else {"type": "string"}}
    if by == "mark" and marks is not None:
        types["element"] = {"type": "integer", "enum": [*marks]}
    none = types["element"].get("enum") == []
    optional = {"type": "null"} if none else {"anyOf": [types["element"], {"type": "null"}]}
    actions = []
    for kind in kinds:
        fields = {field: types[field] for field in _fields(kind, by)}
        if kind in _OPTIONAL and by == "mark" and "press" in kinds:
            fields["element"] = optional
        if kind not in _TARGETED or not none:
            actions.append(object_schema({"type": {"type": "string", "enum": [kind]}, **fields}))
    text = {"type": "string"}
    words = {"thought": text, "note": text} if thoughts else {}
    candidate = object_schema({**words, "action": {"anyOf": actions}})
    return object_schema({"candidates": {"type": "array", "items": candidate, "minItems": n, "maxItems": n}})


def _fields(kind: str, by: By) -> Sequence[str]:
    """The fields of an action, as a model writes it."""
    place = ("x", "y") if by == "point" else ("element",)
    return (*(place if kind in _TARGETED else ()), *_FIELDS[kind])


def actions_on(page: Observation | None, actions: Actions) -> Sequence[str]:
    """The actions that a page offers, or any page (None): an upload needs a file field, and a switch another tab."""
    if actions == "paper":
        return _PAPER
    if page is None:
        return [*_FIELDS]
    asks = any(element.asks == "file" for element in page.elements) or any(" a file" in words for words in page.notices)
    offered = {"upload": asks, "switch_tab": len(page.tabs) > 1}
    return [kind for kind in _FIELDS if offered.get(kind, True)]


def parse_candidates(
    data: Any, observation: Observation, n: int, by: By, picture: Picture | None = None, actions: Actions = "web"
) -> Sequence[Candidate]:
    """The valid candidates of a reply, the first n with distinct actions; points are on `picture`. ReplyError with
    every complaint when there is none, in words that help the model fix it."""
    candidates: dict[Action, Candidate] = {}
    complaints = []
    for number, entry in enumerate(_entries(data), 1):
        try:
            candidate = _candidate(entry, observation, by, picture, actions)
            candidates.setdefault(identity(candidate.action), candidate)  # a repeat in one reply is no second vote
        except ReplyError as error:
            complaints.append(f"candidate {number}: {error}")
    if not candidates:
        wanted = 'expected an object with a list "candidates" of at least one candidate'
        raise ReplyError("; ".join(complaints) or wanted)
    return [*candidates.values()][:n]


def _entries(data: Any) -> list[Any]:
    """The candidates in a list, in an object with a list, or alone; written as JSON, or as JSON in a text."""
    if isinstance(data, list):
        return [entry for item in data for entry in _entries(item)]
    if isinstance(data, dict) and "candidates" in data:
        return _entries(data["candidates"])
    if isinstance(data, dict) and {*map(_kind, data)}.isdisjoint((*_FIELDS, "type", *_NAMES["type"])):
        inner = [value for value in data.values() if len(data) == 1 or isinstance(value, list | dict)]
        return _entries(inner) if inner else [data]  # under other names
    if isinstance(data, str) and (values := values_of(data)):
        return _entries(values)
    return [data]


def _candidate(entry: Any, observation: Observation, by: By, picture: Picture | None, actions: Actions) -> Candidate:
    entry = {_word(name): value for name, value in entry.items()} if isinstance(entry, dict) else {"action": entry}
    action = _action(_fields_of(entry), observation, by, picture, actions)
    words = {name: " ".join(entry[name].split()) for name in ("thought", "note") if isinstance(entry.get(name), str)}
    return Candidate(action=action, label=action_text(on_mark(action, observation), observation.elements), **words)


def _fields_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an action: an object, a type next to its fields, `{"click": {…}}`, or a command."""
    action = entry.get("action", entry)
    action = values_of(action) if isinstance(action, str) and action.strip().startswith("{") else action
    action = action[0] if isinstance(action, list) and len(action) == 1 else action
    if isinstance(action, str):
        if (kind := _kind(action)) in _FIELDS:
            return {**entry, "type": kind}
        action = parse_action(_command(action)).model_dump(exclude_none=True)
        return {"element": action.get("mark"), **action}
    if not isinstance(action, dict):
        raise ReplyError('expected "thought", "note" and "action"')
    if len(action) == 1 and isinstance(fields := next(iter(action.values())), dict):
        return {**fields, "type": next(iter(action))}
    return action


def _command(text: str) -> str:
    """An action in words as the command that it means: `CLICK 2` and `click(2)` are `click [2]`."""
    head, quote, rest = text.strip().partition('"')
    head = head.lower()
    if (match := re.match(r"(\w+)\b[^\d\"]*(\d+)\W*$", head)) and _kind(match[1]) in _TARGETED:
        head = f"{_kind(match[1])} [{match[2]}]{' ' if quote else ''}"
    return head + quote + rest


def _kind(name: object) -> str:
    return _SYNONYMS.get(_word(name), _word(name))


def _word(name: object) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", str(name).strip(" ()\n")).lower()


def _action(
    entry: Mapping[str, Any], observation: Observation, by: By, picture: Picture | None, actions: Actions
) -> Action:
    own = {_word(name): value for name, value in entry.items() if value is not None}

    def given(field: str) -> Any:
        return next((own[name] for name in (field, *_NAMES.get(field, ())) if name in own), None)

    kind, known = _kind(given("type")), _PAPER if actions == "paper" else [*_FIELDS]
    kind, _, way = kind.partition("_") if kind.startswith("scroll_") else (kind, "", None)
    if kind not in known:
        raise ReplyError(f"the action type {kind!r} is none of {', '.join(known)}")
    fields = _fields(kind, by)
    if kind in _OPTIONAL and by == "mark" and actions == "web":
        fields = ("element", *fields)
    values = {field: value for field in fields if (value := given(field)) is not None}
    if values.get("element") in ("", "none", "null", 0):
        del values["element"]
    if kind in _TARGETED and by == "point" and picture is not None:
        point = point_of(values, picture)
        values = {"point": point, **{field: values[field] for field in _FIELDS[kind] if field in values}}
    if "element" in values and by == "mark":
        values["mark"] = to_number(values.pop("element"))
    elif "element" in values:
        values["target"] = values.pop("element")
    if isinstance(values.get("text"), int | float):
        values["text"] = str(values["text"])
    if way or isinstance(values.get("direction"), str):
        values["direction"] = way or values["direction"].strip().lower()
    try:
        action = ACTION.validate_python({"kind": kind, **values})
    except ValidationError as error:
        problem = error.errors()[0]
        raise ReplyError(f"{kind}: {'.'.join(map(str, problem['loc'][1:]))} {problem['msg']}") from error
    if isinstance(action, Marked) and action.mark is not None and element_of(action, observation) is None:
        count = len(observation.elements)
        raise ReplyError(f"there is no element {action.mark}: the page has {count} marked elements")
    return action


def point_of(given: Any, picture: Picture) -> Point:
    """The point of the page that `{"x": …, "y": …}` names on its picture. ReplyError, in words for the model."""
    match given:
        case {"x": int() | float() as x, "y": int() | float() as y}:
            return picture.to_css(x, y)
    raise ReplyError('expected "x" and "y", both numbers')


@dataclass(frozen=True)
class JsonDialect:
    """Several candidates in one JSON object.

    With `page_marks` the schema names the marks of the page, so that a server that holds replies to it cannot let a
    model invent one. OpenAI compiles each new schema for seconds: there it is the same for all pages. Without
    `thoughts` a candidate is its action alone, which costs fewer tokens.
    """

    by: By = "mark"
    page_marks: bool = True
    thoughts: bool = True
    actions: Actions = "web"
    single = False
    repair = "with JSON only"  # how to reply, after a reply that could not be read
    user = staticmethod(candidates_user)

    @property
    def pointing(self) -> bool:
        """Whether elements are points on the picture of the page."""
        return self.by == "point"

    def schema(self, n: int, page: Observation) -> dict[str, Any]:
        named = self.page_marks and len(page.elements) <= MOST_MARKS
        marks = [element.mark for element in page.elements] if named else None
        kinds = actions_on(page if self.page_marks else None, self.actions)
        return candidates_schema(n, self.by, marks, thoughts=self.thoughts, kinds=kinds)

    def system(self, state: State, n: int, picture: Picture | None) -> str:
        """What Fig. 7 asks for, in our words. Points are on `picture`."""
        element, rule = '"element": MARK', "MARK is the number in [brackets] after an element of the page."
        if self.by == "words":
            element = '"element": "Add to cart button of the blue mug"'
            rule = "An element is described in words that fit no other element."
        elif self.by == "point" and picture is not None:
            across, down = picture.span
            element = f'"x": {across // 2}, "y": {down // 2}'
            rule = (
                "An element is the middle of its visible part on the picture of the current page: x from the left "
                f"edge, y from the top edge, whole numbers, {picture_unit(picture)}."
            )
        return render(
            "candidates_system",
            n=n,
            thoughts=self.thoughts,
            element=element,
            element_rule=rule,
            kinds=actions_on(state.observation, self.actions),
            by=self.by,
        )

    def read(self, reply: Reply, observation: Observation, n: int, picture: Picture | None) -> Sequence[Candidate]:
        """The first n candidates with distinct actions. ReplyError, in words for the model, when there is none."""
        return read_json(reply, lambda data: parse_candidates(data, observation, n, self.by, picture, self.actions))
