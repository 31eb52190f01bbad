"""The tagged union of web actions, and the one-line text each is written as.

The paper's eight web actions (Best-of-Q, Fig. 7) are click, write, scroll, go_back, answer, wait, refresh and restart;
Agent Q adds submit, clear, goto and ask_user (3.1). Real pages also need press, upload, switch_tab, and scrolling in a
box. Other tools have actions that are none of these. A target is a mark of the current observation, a point in CSS
pixels, or a description in words that a localizer turns into a point (Best-of-Q, A.1).
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, field_validator, model_validator

from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Element, Observation, Point

_NAMED = (
    *("Enter", "Escape", "Tab", "Space", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Shift", "Control", "Alt", "Meta"),
    *(f"F{number}" for number in range(1, 13)),
)
_KEYS = {name.lower(): name for name in _NAMED} | {name.removeprefix("Arrow").lower(): name for name in _NAMED}
_KEYS |= {"esc": "Escape", "return": "Enter", "del": "Delete", "ctrl": "Control", "cmd": "Meta", "command": "Meta"}
MAX_KEYS = 20  # of one action


class Marked(FrozenModel):
    """An action that may be on one element."""

    mark: int | None = Field(default=None, ge=1, description="number of an element of the current observation")


class Targeted(Marked):
    """An action on one element: give exactly one of `mark`, `point`, `target`. A localizer adds a point to a target."""

    point: Point | None = Field(default=None, description="CSS pixels from the viewport's top left corner")
    target: str | None = Field(default=None, min_length=1, description="the element in words, for a localizer")
    refusal: str | None = Field(default=None, description="why a localizer found no point for `target`")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        given = [name for name in ("mark", "point", "target") if getattr(self, name) is not None]
        if len(given) != 1 and given != ["point", "target"]:
            raise ValueError(f"give exactly one of mark, point, target; got {given or 'none'}")
        return self


class Click(Targeted):
    kind: Literal["click"] = "click"


class Write(Targeted):
    """Replace the content of a field by `text`; `enter` presses Enter afterwards."""

    kind: Literal["write"] = "write"
    text: str
    enter: bool = False


class Submit(Targeted):
    """Submit the form the target belongs to."""

    kind: Literal["submit"] = "submit"


class Clear(Targeted):
    kind: Literal["clear"] = "clear"


class Press(Marked):
    """Press keys one after the other, on the element of `mark` or on what has the focus."""

    kind: Literal["press"] = "press"
    keys: str = Field(description="with blanks between them: Escape, ArrowDown Enter, Control+a")

    @field_validator("keys")
    @classmethod
    def _are_keys(cls, keys: str) -> str:
        strokes = [re.split(r"(?<=.)\+(?=.)", stroke) for stroke in re.sub(r"(?<=\w) \+ (?=\w)", "+", keys).split()]
        if not 1 <= len(strokes) <= MAX_KEYS:
            raise ValueError(f"give 1 to {MAX_KEYS} keys, with blanks between them; got {len(strokes)}")
        for name in (name for stroke in strokes for name in stroke):
            if name.lower() in _KEYS or (len(name) == 1 and name.isascii()):
                continue
            raise ValueError(f"{name!r} is no key: give Enter, Escape, Tab, ArrowDown, a letter, Control+a or the like")
        return " ".join("+".join(_KEYS.get(name.lower(), name) for name in stroke) for stroke in strokes)


class Upload(Targeted):
    """Give a file to a file field, or to what opens a file chooser."""

    kind: Literal["upload"] = "upload"
    file: str = Field(min_length=1, description="its name in the folder whose files may be uploaded")


class SwitchTab(FrozenModel):
    kind: Literal["switch_tab"] = "switch_tab"
    tab: int = Field(ge=1, description="its number among `Observation.tabs`, the current one first")


class Scroll(Marked):
    """Scroll by `pages` heights (or widths) of the page, or of the box that the element of `mark` is or lies in."""

    kind: Literal["scroll"] = "scroll"
    direction: Literal["up", "down", "left", "right"] = "down"
    pages: float = Field(default=0.8, gt=0, le=10)


class Goto(FrozenModel):
    kind: Literal["goto"] = "goto"
    url: str = Field(min_length=1)


class GoBack(FrozenModel):
    kind: Literal["go_back"] = "go_back"


class Refresh(FrozenModel):
    kind: Literal["refresh"] = "refresh"


class Restart(FrozenModel):
    """Return to the task's start URL."""

    kind: Literal["restart"] = "restart"


class Wait(FrozenModel):
    kind: Literal["wait"] = "wait"
    seconds: float = Field(default=1.0, gt=0, le=10)


class Answer(FrozenModel):
    """End the episode with an answer to the user."""

    kind: Literal["answer"] = "answer"
    text: str


class AskUser(FrozenModel):
    kind: Literal["ask_user"] = "ask_user"
    question: str


class Other(FrozenModel):
    """An action of another tool that is none of these, as its log has it. No environment here carries it out."""

    kind: Literal["other"] = "other"
    text: str


_OnPage = Click | Write | Submit | Clear | Press | Upload | Scroll
_Elsewhere = Goto | GoBack | SwitchTab | Refresh | Restart | Wait | Answer | AskUser | Other
Action = Annotated[_OnPage | _Elsewhere, Field(discriminator="kind")]
ACTION: TypeAdapter[Action] = TypeAdapter(Action)


def identity(action: Action) -> Action:
    """Equal for two actions on one page only if they are the same. What a localizer adds makes no other action."""
    if isinstance(action, Targeted) and action.target is not None:
        return action.model_copy(update={"point": None, "refusal": None})
    return action


def amounts_to(action: Action, observation: Observation) -> Action:
    """Return the click or the writing with Enter that pressing Enter or Space on an element is. Others stay."""
    if not isinstance(action, Press) or (element := element_of(action, observation)) is None:
        return action
    keys, value = {stroke.rpartition("+")[2] for stroke in action.keys.split()}, element.value
    if value is None and not keys.isdisjoint({"Enter", "Space"}):
        return Click(mark=element.mark)
    return Write(mark=element.mark, text=value or "", enter=True) if "Enter" in keys else action


def element_of(action: Marked, observation: Observation) -> Element | None:
    """The element of a mark, or the smallest one under a point; None where there is none, or for words."""
    if action.mark is not None:
        return next((element for element in observation.elements if element.mark == action.mark), None)
    if not isinstance(action, Targeted) or (point := action.point) is None:
        return None
    boxes = ((element, element.box) for element in observation.elements if element.box is not None)
    under = [e for e, b in boxes if 0 <= point.x - b.x <= b.width and 0 <= point.y - b.y <= b.height]
    return min(reversed(under), key=lambda e: e.box.width * e.box.height if e.box else 0.0, default=None)


def on_mark(action: Action, observation: Observation) -> Action:
    """The same action by the mark of the element that it is on, so that its words say what that is."""
    under = element_of(action, observation) if isinstance(action, Targeted) else None
    return action if under is None else action.model_copy(update={"point": None, "target": None, "mark": under.mark})


def action_text(action: Action, elements: Sequence[Element] | None = None) -> str:
    """Write the action as the command of a model: `click [7]`. With `elements`, a mark is replaced by what it names, so
    that the line has a meaning on other pages (histories, embeddings)."""
    match action:
        case Click() | Submit() | Clear():
            return f"{action.kind} {_target(action, elements)}"
        case Write():
            return f'write {_target(action, elements)} "{action.text}"' + (" enter" if action.enter else "")
        case Press():
            return f"press {action.keys}" + (f" {_target(action, elements)}" if action.mark else "")
        case Upload():
            return f'upload {_target(action, elements)} "{action.file}"'
        case SwitchTab():
            return f"tab {action.tab}"
        case Scroll():
            return f"scroll {action.direction}" + (f" {_target(action, elements)}" if action.mark else "")
        case Goto():
            return f"goto {action.url}"
        case GoBack():
            return "back"
        case Refresh() | Restart():
            return action.kind
        case Wait():
            return f"wait {action.seconds:g}"
        case Answer():
            return f'answer "{action.text}"'
        case AskUser():
            return f'ask "{action.question}"'
        case Other():
            return action.text


def _target(action: Marked, elements: Sequence[Element] | None) -> str:
    if action.mark is not None:
        named = next((e for e in elements or () if e.mark == action.mark), None)
        if named is None:
            return f"[{action.mark}]"
        return " ".join((named.role, named.name, *(f"({state})" for state in named.states)))
    assert isinstance(action, Targeted)
    if action.target is not None:
        return f"<{action.target}>"
    assert action.point is not None
    return f"({action.point.x:g}, {action.point.y:g})"
