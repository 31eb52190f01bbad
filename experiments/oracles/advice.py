"""What every oracle says, and how it points at an element by its name."""

from typing import NamedTuple

from bestofq.core.actions import Action, Click
from bestofq.core.observation import Observation


class Advice(NamedTuple):
    """The best action, a short thought that leads to it, and what to tell the user of it."""

    thought: str
    action: Action
    explanation: str = ""


def mark_of(observation: Observation, name: str, role: str | None = None) -> int:
    """The mark of the page's first element of this name. StopIteration where there is none."""
    return next(e.mark for e in observation.elements if e.name == name and role in (None, e.role))


def click_on(observation: Observation, name: str, role: str | None = None) -> Click:
    return Click(mark=mark_of(observation, name, role))
