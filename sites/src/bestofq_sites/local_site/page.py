"""A page as plain elements, and as the text a browser makes of them (`browser/snapshot.py`).

`text.py` reads and acts on these elements; `page.jinja` writes them as HTML.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bestofq.core.observation import Element, Observation
from bestofq.core.page_text import page_words


@dataclass(frozen=True, slots=True)
class Link:
    """Leads to an address of this site; as a radio it is one of several choices."""

    name: str
    to: str
    role: Literal["link", "radio"] = "link"
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A line to write in; `value` is what the site put there."""

    key: str  # in what the form sends
    name: str
    value: str = ""
    kind: Literal["text", "search", "email", "tel"] = "text"


@dataclass(frozen=True, slots=True)
class SelectField:
    """A list to choose from. Choosing loads the page again with the choice made: the form goes to its `again`."""

    key: str
    name: str
    value: str
    options: tuple[tuple[str, str], ...]  # (value, what the list shows)

    @property
    def shown(self) -> str:
        return dict(self.options)[self.value]


@dataclass(frozen=True, slots=True)
class Button:
    """Sends its form. A button with an address of its own is in no form and posts there."""

    name: str
    to: str = ""


Node = str | Link | Field | SelectField | Button
Control = Link | Field | SelectField | Button
Line = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """Lines whose fields are sent together, after the hidden ones. Unless `numbered`, elements do not name the form."""

    action: str
    lines: tuple[Line, ...]
    hidden: tuple[tuple[str, str], ...] = ()
    post: bool = False
    again: str = ""
    numbered: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Lines and forms in reading order; the first line is the heading."""

    title: str
    parts: tuple[Line | Form, ...]
    missing: bool = False  # the site has no such page

    @property
    def lines(self) -> Iterator[tuple[Line, Form | None]]:
        """All lines, each with its form."""
        for part in self.parts:
            if isinstance(part, Form):
                yield from ((line, part) for line in part.lines)
            else:
                yield part, None

    @property
    def controls(self) -> list[tuple[Control, Form | None]]:
        """What can be acted on, by mark: mark n at n - 1."""
        return [(node, form) for line, form in self.lines for node in line if not isinstance(node, str)]


def render(page: Page, typed: dict[int, str], url: str) -> Observation:
    """The observation a browser makes of the page; `typed` holds what was written into its fields since, by mark."""
    elements: list[Element] = []
    lines = []
    forms: list[Form] = []
    for line, form in page.lines:
        pieces = []
        for node in line:
            if isinstance(node, str):
                pieces.append(page_words(node))
                continue
            if form is not None and form not in forms:
                forms.append(form)
            stated = form is not None and form.numbered and not isinstance(node, Link)
            number = forms.index(form) + 1 if form is not None and stated else None
            element = _element(node, len(elements) + 1, typed.get(len(elements) + 1), number)
            elements.append(element)
            value = "" if element.value is None else f': "{" ".join(element.value.split())}"'
            states = f" ({', '.join(element.states)})" if element.states else ""
            pieces.append(f"{page_words(node.name + value)}{states} [{element.mark}]")
        lines.append(" ".join(pieces))
    return Observation(
        url=url,
        title=page_words(page.title),
        text="\n".join(lines),
        elements=tuple(elements),
        tabs=(page_words(page.title),),
    )


def _element(node: Control, mark: int, typed: str | None, form: int | None) -> Element:
    name = page_words(node.name)
    match node:
        case Link():
            return Element(mark=mark, role=node.role, name=name, states=("checked",) if node.checked else ())
        case Button():
            return Element(mark=mark, role="button", name=name, form=form)
        case SelectField():
            return Element(mark=mark, role="combobox", name=name, value=node.shown, form=form)
        case Field():
            return Element(
                mark=mark,
                role="searchbox" if node.kind == "search" else "textbox",
                name=name,
                value=node.value if typed is None else typed,
                asks=node.kind if node.kind in ("email", "tel") else None,
                form=form,
            )
