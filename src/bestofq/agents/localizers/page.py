"""An element described in words, found by the page's own roles and names (Best-of-Q, A.1, without a model); and one
localizer after another."""

import re
from dataclasses import dataclass

from rapidfuzz.fuzz import ratio, token_set_ratio
from rapidfuzz.utils import default_process

from bestofq.core.decision import Located
from bestofq.core.errors import ReplyError
from bestofq.core.observation import Element, Observation, Point
from bestofq.core.protocols import Localizer
from bestofq.core.usage import merge_usage

ROLES = {  # words people use, and the ARIA roles they mean
    "button": {"button", "link", "tab", "menuitem", "switch"},
    "link": {"link", "button"},
    "field": {"textbox", "searchbox", "combobox", "spinbutton"},
    "box": {"textbox", "searchbox", "combobox", "checkbox"},
    "input": {"textbox", "searchbox", "combobox", "spinbutton"},
    "textbox": {"textbox", "searchbox", "combobox", "spinbutton"},
    "checkbox": {"checkbox", "switch"},
    "radio": {"radio"},
    "option": {"option", "radio", "checkbox", "menuitem"},
    "dropdown": {"combobox", "listbox", "button"},
    "menu": {"menuitem", "combobox", "listbox", "button"},
    "tab": {"tab", "link"},
    "slider": {"slider"},
}
_WRITTEN = {"textbox", "searchbox"}
_IDLE = frozenset(
    ["the", "a", "an", "of", "on", "in", "at", "to", "for", "with", "labeled", "labelled", "named", "called", "that"]
)


@dataclass(frozen=True)
class Found:
    """An element and how well it fits the words, in [0, 1]."""

    element: Element
    score: float


@dataclass(frozen=True)
class PageLocalizer:
    """`Localizer` by fuzzy comparison of names, with roles as a tie-break. It refuses rather than guesses: where
    nothing fits well enough, or where the second best fits about as well."""

    least: float = 0.6  # score of the best, at least
    margin: float = 0.04  # by which it must lead

    async def locate(self, observation: Observation, target: str) -> Located:
        """The middle of the element, or why it is ambiguous. Uses nothing."""
        try:
            return Located(point=self._middle(observation, target))
        except ReplyError as refusal:
            return Located(refusal=str(refusal))

    def _middle(self, observation: Observation, target: str) -> Point:
        ranked = self.rank(observation, target)
        if not ranked or ranked[0].score < self.least:
            raise ReplyError(f'No element of the page fits "{target}".')
        best = ranked[0]
        rivals = [found.element for found in ranked[1:] if best.score - found.score < self.margin]
        if rivals:
            names = "; ".join(f"{e.role} {e.name} [{e.mark}]" for e in (best.element, *rivals[:3]))
            raise ReplyError(f'"{target}" fits several elements: {names}. Describe the one you mean more closely.')
        return middle_of(best.element, target)

    def rank(self, observation: Observation, target: str) -> list[Found]:
        """All elements, the best first."""
        quoted = re.search(r"[\"'“](.+?)[\"'”]", target)
        outside = default_process(target.replace(quoted.group(), " ") if quoted else target)
        words = re.sub(r"\bsearch ?(?:bar|box)\b", "search box", outside).split()
        kinds = {word for word in words if word in ROLES}
        named = " ".join(word for word in words if word not in ROLES and word not in _IDLE)
        wanted = default_process(quoted.group(1)) if quoted else named
        each = [ROLES[kind] for kind in kinds]
        roles = (set.intersection(*each) or set.union(*each)) | kinds if each else set()  # "menu link": a link, too
        if not any(element.role in roles for element in observation.elements):
            roles = set()
        whole = default_process(target)
        found = [Found(element, _score(element, wanted, whole, kinds, roles)) for element in observation.elements]
        return sorted(found, key=lambda f: -f.score)


def middle_of(element: Element, target: str) -> Point:
    """The middle of the element that `target` names. ReplyError where there is no layout."""
    box = element.box
    if box is None:
        raise ReplyError(f'"{target}" is {element.role} {element.name}, which has no place on the page.')
    return Point(box.x + box.width / 2, box.y + box.height / 2)


def _score(element: Element, wanted: str, whole: str, kinds: set[str], roles: set[str]) -> float:
    """Mostly the name: its similarity to the words left when role words are gone, and to all of them. No field is meant
    by words for a button, and no button by words for a field, unless they are of its name ("gift box")."""
    name = default_process(f"{element.name} {element.value or ''}")
    similarity = max(_similarity(name, wanted), 0.9 * _similarity(name, whole)) if name else 0.0
    if element.role in roles and (not wanted or (wanted, element.role) == ("search", "searchbox")):
        similarity = max(similarity, 0.7)  # the role says it all
    if not roles or element.role in roles:
        return similarity
    other = bool(roles & _WRITTEN) != (element.role in _WRITTEN)
    return similarity * (0.5 if other and not kinds & set(name.split()) else 0.75)


def _similarity(name: str, words: str) -> float:
    """Shared words count most, closeness as a whole breaks ties."""
    return (0.7 * token_set_ratio(name, words) + 0.3 * ratio(name, words)) / 100


@dataclass(frozen=True)
class FallbackLocalizer:
    """`Localizer`: `first`, and `second` where it refuses: the page, which costs nothing, then a model (A.1)."""

    first: Localizer
    second: Localizer

    async def locate(self, observation: Observation, target: str) -> Located:
        """The first point found; where both refuse, the first's words, which name what the page holds."""
        found = await self.first.locate(observation, target)
        if found.point is not None:
            return found
        other = await self.second.locate(observation, target)
        usage = merge_usage((*found.usage, *other.usage))
        return (found if other.point is None else other).model_copy(update={"usage": usage})
