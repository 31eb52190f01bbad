"""Acts by the names of elements, for the pages and widgets of the tests."""

import re

from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Action, Clear, Click, Press, Scroll, Write
from bestofq.core.observation import Element, Observation

Step = tuple[str, ...]
"""An act; the name of the element; a text or keys. Or "sees" and a pattern of the page's title and text."""


def mark(seen: Observation, words: str) -> int:
    """The mark of the element of that name, or that begins with it; `#2 name`: the second; `a|role`: one of either."""
    number, name = re.fullmatch(r"(?:#(\d+) )?(.*)", words).groups()  # type: ignore[union-attr]
    names = name.split("|")

    def rank(element: Element) -> int:
        said = [element.name, element.value, element.role]
        return 0 if any(one in names for one in said) else 1 if element.name.startswith(tuple(names)) else 2

    found = sorted((one for one in seen.elements if rank(one) < 2), key=rank)
    assert found, f"{words} is not offered in:\n{seen.text}"
    return found[int(number or 1) - 1].mark


def action(step: Step, seen: Observation) -> Action:
    match step:
        case ("click", name):
            return Click(mark=mark(seen, name))
        case ("write", name, text):
            return Write(mark=mark(seen, name), text=text)
        case ("enter", name, text):
            return Write(mark=mark(seen, name), text=text, enter=True)
        case ("clear", name):
            return Clear(mark=mark(seen, name))
        case ("press", name, keys):
            return Press(mark=mark(seen, name) if name else None, keys=keys)
        case ("scroll", name):
            return Scroll(mark=mark(seen, name) if name else None)
    raise ValueError(step)


async def follow(session: BrowserSession, steps: list[Step]) -> None:
    """Do the steps on the session's page; AssertionError, with what the page shows, at the first that fails."""
    seen = await session.snapshot()
    for step in steps:
        if step[0] == "sees":
            assert re.search(step[1], f"{seen.title}\n{seen.text}", re.S), f"{step}\n{seen.title}\n{seen.text}"
            continue
        error = await session.act(action(step, seen))
        seen = await session.snapshot()
        assert error is None, f"{step}: {error}\n{seen.text}"
