"""Actions of other tools as ours, where they are exactly that; else `Other`, as the log has them."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from bestofq.core.actions import ACTION, Action, Answer, Other, action_text
from bestofq.core.decision import Candidate
from bestofq.core.observation import Element
from bestofq.interop.nouns import element_of, json_in, json_of

_KINDS: Mapping[str, str] = {  # by the names of other tools
    **dict.fromkeys(("click_element", "click_element_by_index"), "click"),
    **dict.fromkeys(("input", "input_text"), "write"),
    **dict.fromkeys(("navigate", "go_to_url", "open_url"), "goto"),
    "back": "go_back",
    "reload": "refresh",
    "done": "answer",
}
_ARGUMENTS = {"index": "mark", "num_pages": "pages"}
_SAY_NOTHING = (("clear", True), ("new_tab", False), ("success", True), ("success", False))
"""Arguments at their defaults, and an agent's own word that it succeeded, which is in its reply."""

NOTHING = "no action"
_LINE = re.compile(r"""^\s*\[(\d{1,9})\] (\w+) ['"](.*?)['"](?:,|$)""", re.M)
_SIGNATURES: Mapping[str, tuple[str, ...]] = {  # BrowserGym's actions that are exactly ours, with their arguments
    "click": ("click", "mark"),
    "fill": ("write", "mark", "text"),
    "clear": ("clear", "mark"),
    "goto": ("goto", "url"),
    "go_back": ("go_back",),
    "noop": ("wait", "seconds"),
    "send_msg_to_user": ("answer", "text"),
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
        kind = _KINDS.get(self.name, self.name)
        given = {name: value for name, value in self.arguments.items() if value is not None and value != []}
        if kind == "scroll" and isinstance(down := given.pop("down", None), bool):
            given["direction"] = "down" if down else "up"
        values = {_ARGUMENTS.get(n, n): value for n, value in given.items() if (n, value) not in _SAY_NOTHING}
        if kind in ("scroll", "wait") and not values:  # how far, how long?
            return Other(text=self.text)
        return _exactly(kind, self.text, values)


def _exactly(kind: str, written: str, values: Mapping[str, Any]) -> Action:
    """Return the action of that kind; if there is no such kind, or a value does not fit, the words as they are."""
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


def spoken(words: str, last: bool) -> Action:
    """A reply that calls no tool: the answer if the episode ends with it."""
    return Answer(text=words) if last else Other(text=words or NOTHING)


def candidate_of(actions: Sequence[Action], elements: Sequence[Element], **words: Any) -> Candidate:
    """What a step decided: its action, or the several that it did without a look between them, as one."""
    actions = actions or [Other(text=NOTHING)]
    labels = "; ".join(action_text(action, elements) for action in actions)
    action = actions[0] if len(actions) == 1 else Other(text="; ".join(map(action_text, actions)))
    said = {name: value if isinstance(value, str) else json_of(value) for name, value in words.items() if value}
    return Candidate(action=action, label=labels, **said)


def elements_in(text: str) -> tuple[Element, ...]:
    """Return the elements of a BrowserGym accessibility tree, a line each: `[12] button 'Search', clickable`."""
    found = (element_of(int(mark), role, name) for mark, role, name in _LINE.findall(text))
    return tuple({element.mark: element for element in found if element is not None}.values())


def action_of(written: str) -> Action:
    """Return the action that BrowserGym writes as a call with constant arguments: `click('12')`."""
    try:
        match ast.parse(written.strip(), mode="eval").body:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _SIGNATURES:
                kind, *names = _SIGNATURES[name]
                values = dict(zip(names, map(ast.literal_eval, args), strict=True))
                if "seconds" in values:  # BrowserGym counts milliseconds
                    values["seconds"] /= 1000
                return _exactly(kind, written, values)
    except (SyntaxError, ValueError, TypeError):
        pass
    return Other(text=written)
