"""Actions of other tools as ours, where they are exactly that; else `Other`, as the log has them."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from bestofq.core.actions import ACTION, Action, Answer, Other, Targeted, action_text
from bestofq.core.decision import Candidate
from bestofq.core.observation import Element
from bestofq.interop.nouns import element_of, json_in, json_of

_ON = {"mark": "mark", "index": "mark"}
_TYPED = {**_ON, "text": "text", "enter": "enter"}
_KNOWN: Mapping[str, tuple[str, Mapping[str, str]]] = {  # by a tool's name: the kind, and our names of its arguments
    **dict.fromkeys(("click", "click_element", "click_element_by_index"), ("click", _ON)),
    **dict.fromkeys(("write", "input", "input_text"), ("write", _TYPED)),
    **dict.fromkeys(("goto", "navigate", "go_to_url", "open_url"), ("goto", {"url": "url"})),
    **dict.fromkeys(("go_back", "back"), ("go_back", {})),
    **dict.fromkeys(("refresh", "reload"), ("refresh", {})),
    **dict.fromkeys(("answer", "done"), ("answer", {"text": "text"})),
    "submit": ("submit", _ON),
    "clear": ("clear", _ON),
    "scroll": ("scroll", {"direction": "direction", "pages": "pages", "num_pages": "pages"}),
    "restart": ("restart", {}),
    "wait": ("wait", {"seconds": "seconds"}),
    "ask_user": ("ask_user", {"question": "question"}),
}
_SAY_NOTHING = (("clear", True), ("new_tab", False), ("success", True), ("success", False))
"""Arguments at their defaults, and an agent's own word that it succeeded, which is in its reply."""

NOTHING = "no action"
_LINE = re.compile(r"""^\s*\[(\d{1,9})\] (\w+) ['"](.*?)['"](?:,|$)""", re.M)
_SIGNATURES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # BrowserGym's actions that are exactly ours
    "click": ("click", ("mark",)),
    "fill": ("write", ("mark", "text")),
    "clear": ("clear", ("mark",)),
    "goto": ("goto", ("url",)),
    "go_back": ("go_back", ()),
    "noop": ("wait", ("seconds",)),
    "send_msg_to_user": ("answer", ("text",)),
}


class Call(NamedTuple):
    """A tool's name and its arguments."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        return f"{self.name} {json_of(self.arguments)}" if self.arguments else self.name

    @property
    def action(self) -> Action:
        kind, names = _KNOWN.get(self.name, ("", {}))
        given = {name: value for name, value in self.arguments.items() if value is not None and value != []}
        if kind == "scroll" and isinstance(down := given.pop("down", None), bool):
            given["direction"] = "down" if down else "up"
        given = {name: value for name, value in given.items() if name in names or (name, value) not in _SAY_NOTHING}
        bare = names and not given  # how long, how far?
        if not kind or bare or any(name not in names for name in given):
            return Other(text=self.text)
        return exactly(kind, self.text, **{names[name]: value for name, value in given.items()})


def exactly(kind: str, written: str, **values: Any) -> Action:
    """The action of that kind; as it was written, where the values are impossible for it."""
    try:
        return ACTION.validate_python({"kind": kind, **values})
    except ValidationError:
        return Other(text=written)


def call_of(name: Any, arguments: Any) -> Call:
    """Arguments may come as JSON in a text."""
    if isinstance(arguments, str):
        try:
            arguments = json_in(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    if not isinstance(arguments, Mapping):
        arguments = {"arguments": arguments} if arguments else {}
    return Call(str(name), arguments)


def call_in(text: str) -> Call:
    """The call that `Call.text` wrote. Words that are none are the text of a call `other`."""
    name, _, arguments = text.partition(" ")
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        found = None
    return Call(name, found) if isinstance(found, Mapping) else Call("other", {"text": text})


def spoken(words: str, *, last: bool) -> Action:
    """A reply that calls no tool: the answer where the episode ends with it."""
    return Answer(text=words) if last else Other(text=words or NOTHING)


def candidate_of(actions: Sequence[Action], elements: Sequence[Element], **words: Any) -> Candidate:
    """What a step decided: its action, or the several that it did without a look between them, as one."""
    actions = actions or [Other(text=NOTHING)]
    labels = "; ".join(label_of(action, elements) for action in actions)
    action = actions[0] if len(actions) == 1 else Other(text="; ".join(map(action_text, actions)))
    said = {name: value if isinstance(value, str) else json_of(value) for name, value in words.items() if value}
    return Candidate(action=action, label=labels, **said)


def label_of(action: Action, elements: Sequence[Element]) -> str:
    """An action in words; a mark that no element is known for keeps its number."""
    return action_text(action, elements if isinstance(action, Targeted) else None)


def elements_in(text: str) -> tuple[Element, ...]:
    """Return the elements of a BrowserGym accessibility tree, a line each: `[12] button 'Search', clickable`."""
    found = (element_of(int(mark), role, name) for mark, role, name in _LINE.findall(text))
    return tuple({element.mark: element for element in found if element is not None}.values())


def action_of(written: str) -> Action:
    """Return the action that BrowserGym writes as a call with constant arguments: `click('12')`."""
    try:
        call = ast.parse(written.strip(), mode="eval").body
        values = [ast.literal_eval(one) for one in call.args] if isinstance(call, ast.Call) else []
    except (SyntaxError, ValueError):
        return Other(text=written)
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return Other(text=written)
    kind, names = _SIGNATURES.get(call.func.id, ("", ()))
    if len(values) != len(names):
        return Other(text=written)
    given = dict(zip(names, values, strict=True))
    if "seconds" in given:  # of milliseconds
        given["seconds"] = given["seconds"] / 1000
    return exactly(kind, written, **given)
