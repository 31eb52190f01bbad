"""Actions of other tools as ours, where they are exactly that; else `Other`, as the log has them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from bestofq.core.actions import ACTION, Action, Answer, Other, action_text
from bestofq.core.decision import Candidate
from bestofq.core.observation import Element
from bestofq.interop.nouns import element_of, json_in, json_of

_KINDS: Mapping[str, str] = {  # by the names of other tools
    **dict.fromkeys(("click_element", "click_element_by_index", "browser_click"), "click"),
    **dict.fromkeys(("input", "input_text", "fill", "browser_type"), "write"),
    **dict.fromkeys(("select_dropdown", "select_dropdown_option", "select_option"), "write"),
    **dict.fromkeys(("send_keys", "browser_press_key", "keyboard_press"), "press"),
    "upload_file": "upload",
    **dict.fromkeys(("navigate", "go_to_url", "open_url", "open_tab", "browser_navigate"), "goto"),
    **dict.fromkeys(("back", "browser_navigate_back"), "go_back"),
    **dict.fromkeys(("scroll_down", "scroll_up"), "scroll"),
    "reload": "refresh",
    "done": "answer",
}
_ARGUMENTS = {
    **dict.fromkeys(("index", "element_id", "element_index", "ref", "bid"), "mark"),
    "num_pages": "pages",
    "value": "text",
    "submit": "enter",
    "path": "file",
    **dict.fromkeys(("key", "key_comb"), "keys"),
}
_DEFAULTS = {
    **dict.fromkeys(("clear", "clear_existing"), True),
    **dict.fromkeys(("while_holding_ctrl", "doubleClick", "slowly"), False),
    "button": "left",
    "num_clicks": 1,
}
_SAY_NOTHING = {"new_tab", "success"}  # an agent's own word that it succeeded is in its reply
_NAMES_AGAIN = {"xpath", "css_selector", "element", "description"}  # what says a second time which element a mark is

NOTHING = "no action"
_LINE = re.compile(r"""^[ \t]*\[(\d{1,9})\] (\w+) ['"](.*?)['"](?:,|$| \w+:)""", re.M)
_SNAPSHOT = re.compile(r"""^[ \t]*- '?(\w+)(?: "((?:[^"\\]|\\.)*)")?[^"\n]*?\[ref=e(\d{1,9})\]""", re.M)


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
        own = {_ARGUMENTS.get(name, name): value for name, value in self.arguments.items() if value not in (None, [])}
        silent = _SAY_NOTHING | (_NAMES_AGAIN if "mark" in own else set())
        values = {n: value for n, value in own.items() if n not in silent and (n, value) not in _DEFAULTS.items()}
        if isinstance(ref := values.get("mark"), str):  # Playwright's e12
            values["mark"] = ref.removeprefix("e")
        if self.name in ("scroll_down", "scroll_up"):  # by a page
            values = {"pages": 1.0, "direction": self.name.removeprefix("scroll_"), **values}
        if kind == "scroll" and isinstance(down := values.pop("down", None), bool):
            values["direction"] = "down" if down else "up"
        if kind in ("scroll", "wait") and not values:  # how far, how long?
            return Other(text=self.text)
        try:
            return ACTION.validate_python({"kind": kind, **values})
        except ValidationError:  # there is no such kind, or a value does not fit
            return Other(text=self.text)


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
    """Return the elements of a page's text, a line each. BrowserGym writes `[12] button 'Search', clickable`, WebArena
    `[12] button 'Search' focused: True`. Playwright writes `- button "Search" [ref=e12]`."""
    lines = [*_LINE.findall(text), *((mark, role, name) for role, name, mark in _SNAPSHOT.findall(text))]
    found = (element_of(int(mark), role, name) for mark, role, name in lines)
    return tuple({element.mark: element for element in found if element is not None}.values())
