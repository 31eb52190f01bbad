"""What a solver reads: the goal, the page's marked elements and words, and its own past actions. No page internals."""

import re
from dataclasses import dataclass
from functools import cached_property

from bestofq.core.actions import Click, Write
from bestofq.core.decision import State
from bestofq.core.observation import Element
from experiments.oracles.advice import Advice

FIELDS = ("textbox", "searchbox", "spinbutton", "combobox", "listbox")
LINKS = ("link", "clickable")


class Unsolved(LookupError):
    """The page holds nothing that this solver knows to do: it is after the end, or of another version."""


@dataclass(frozen=True)
class View:
    """A state as a solver reads it. `past` are the labels of its own actions, oldest first: `click button ok`."""

    goal: str
    elements: tuple[Element, ...]
    text: str
    past: tuple[str, ...]

    @classmethod
    def of(cls, state: State) -> "View":
        seen = state.observation
        return cls(state.task.goal, seen.elements, seen.text, tuple(d.candidate.label for d in state.decisions))

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The page's lines, the goal's own left out."""
        return tuple(line for line in self.text.split("\n") if line != self.goal)

    def asked(self, pattern: str) -> tuple[str, ...]:
        """The groups of a pattern in the goal. Raises Unsolved."""
        return matched(pattern, self.goal)

    def all(self, *roles: str) -> list[Element]:
        """The elements of these roles, in page order."""
        return [element for element in self.elements if element.role in roles]

    def named(self, name: str, *roles: str) -> Element:
        """The first element of that very name. Raises Unsolved."""
        for element in self.elements:
            if element.name == name and (not roles or element.role in roles):
                return element
        raise Unsolved(f"no {' or '.join(roles) or 'element'} is called {name!r}")

    def has(self, name: str, *roles: str) -> bool:
        return any(e.name == name and (not roles or e.role in roles) for e in self.elements)

    def field(self, index: int = 0) -> Element:
        """A text field, counted from 0. Raises Unsolved."""
        return nth(self.all(*FIELDS), index)

    def beside(self, words: str) -> Element:
        """The field labelled by a line with these words: on that line, else on the line after its label, else (where
        the page begins with a field) before it. Raises Unsolved."""
        fields = {element.mark: element for element in self.all(*FIELDS)}
        held = [[fields[int(m)] for m in re.findall(r"\[(\d+)\]", line) if int(m) in fields] for line in self.lines]
        after = -1 if held and held[0] and re.fullmatch(r'\w+: ".*" \[\d+\]', self.lines[0]) else 1
        for index, line in enumerate(self.lines):
            if re.search(words, line, re.IGNORECASE):
                near = held[index] or (held[index + after] if 0 <= index + after < len(held) else [])
                if near:
                    return near[0]
        raise Unsolved(f"no field stands beside {words!r}")


def matched(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern anywhere in a text. Raises Unsolved."""
    if found := re.search(pattern, text):
        return tuple(group or "" for group in found.groups())
    raise Unsolved(f"{text!r} has nothing like {pattern!r}")


def nth(elements: list[Element], index: int) -> Element:
    """Counted from 0. Raises Unsolved."""
    if not -len(elements) <= index < len(elements):
        raise Unsolved(f"there is no element {index + 1} of {len(elements)}")
    return elements[index]


def ordinal(word: str) -> int:
    """`2nd` → 1: an index."""
    return int(matched(r"(\d+)", word)[0]) - 1


def click(element: Element, thought: str) -> Advice:
    return Advice(thought, Click(mark=element.mark))


def write(element: Element, text: str, thought: str) -> Advice:
    return Advice(thought, Write(mark=element.mark, text=text))


def fill(wanted: list[tuple[Element, str]], last: Element) -> Advice:
    """The first field that does not hold its text yet, else the button that ends the form."""
    for element, text in wanted:
        if (element.value or "") != text:
            return write(element, text, f"{text} is to be entered")
    return click(last, "all is filled in")
