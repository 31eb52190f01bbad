"""Find the element that an action names in words, or was chosen on, and repeat the action there."""

from collections.abc import Callable

from bestofq.core.actions import Action, Targeted, action_text, element_of
from bestofq.core.decision import Candidate, StepResult
from bestofq.core.errors import BestOfQError
from bestofq.core.observation import Element, Observation, Point
from bestofq.core.protocols import Env, HoldsBack, Localizer
from bestofq.core.usage import Usage

Unsafe = Callable[[Observation, Action], bool]  # a page, an action → whether it must not be carried out there

ALIKE = 0.9  # share of elements that two looks at one page have in common, at least


class DivergedError(BestOfQError):
    """A page, or an element of it, was not found again where its actions led before."""


async def locate_candidate(
    candidate: Candidate, page: Observation, localizer: Localizer
) -> tuple[Candidate, tuple[Usage, ...]]:
    """Add a point to a candidate's target in words (Best-of-Q, A.1), and return what finding it used. A refusal is kept
    with the words: the agent reads it as the error of its next observation."""
    action = candidate.action
    if not isinstance(action, Targeted) or action.target is None:
        return candidate, ()
    found = await localizer.locate(page, action.target)
    there = action.model_copy(update={"point": found.point, "refusal": found.refusal or None})
    return candidate.model_copy(update={"action": there}), found.usage


def same_page(before: Observation, now: Observation) -> bool:
    """Return whether two observations show one page: one address, nearly the same elements (a clock may differ)."""
    if before.url != now.url:
        return False
    a, b = ({(e.role, e.name, e.value, e.states) for e in o.elements} for o in (before, now))
    return len(a & b) >= ALIKE * len(a | b)


def find_again(action: Action, before: Observation, now: Observation) -> Action:
    """Return an action of the page `before` for the element of the page `now` with the same role, name and position.

    DivergedError if `now` has another number of elements with this role and name.
    """
    if not isinstance(action, Targeted) or action.target is not None:
        return action
    element = element_of(action, before)
    if element is None:
        if element_of(action, now) is not None:
            raise DivergedError(f"nothing was there on {before.url}, and now something is")
        return action
    alike, found = _alike(element, before), _alike(element, now)
    if len(found) != len(alike):
        named = f"{element.role} {element.name!r}"
        raise DivergedError(f"{before.url} had {len(alike)} of {named}, and now has {len(found)}")
    again = found[alike.index(element)]
    if action.mark is not None:
        return action.model_copy(update={"mark": again.mark})
    assert action.point is not None
    if element.box is None or again.box is None:
        raise DivergedError(f"the position of {again.role} {again.name!r} on {now.url} is not known")
    x, y = again.box.x - element.box.x + action.point.x, again.box.y - element.box.y + action.point.y
    moved = action.model_copy(update={"point": Point(x, y)})
    if element_of(moved, now) != again:
        raise DivergedError(f"{again.role} {again.name!r} on {now.url} is under something else")
    return moved


async def repeat(env: Env, action: Action, before: Observation, now: Observation, unsafe: Unsafe | None) -> StepResult:
    """Carry out an action of the page `before` on the page `now`. DivergedError, and nothing is done, if that is
    another page or lacks the element, or if the action is `unsafe` there or when it is pressed."""
    if not same_page(before, now):
        raise DivergedError(f"{now.url} is not the page that {action.kind} was chosen on")
    action = find_again(action, before, now)
    if unsafe is None:
        return await env.step(action)
    refused: list[str] = []

    def held_back(page: Observation, action: Action) -> bool:
        if unsafe(page, action):
            refused.append(f"{action_text(action, page.elements)} on {page.url} seems irreversible")
        return bool(refused)

    if not held_back(now, action):
        if not isinstance(env, HoldsBack):
            return await env.step(action)
        env.held_back = held_back
        try:
            result = await env.step(action)
        finally:
            env.held_back = None
        if not refused:
            return result
    raise DivergedError(refused[0])


def _alike(element: Element, page: Observation) -> list[Element]:
    return [other for other in page.elements if (other.role, other.name) == (element.role, element.name)]
