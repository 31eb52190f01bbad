"""An element described in words becomes a point (Best-of-Q, A.1): by its role and name, by a model, or both."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.fuzz import ratio, token_set_ratio
from rapidfuzz.utils import default_process

from bestofq.agents.dialects.json import point_of
from bestofq.agents.json_replies import json_of, object_schema
from bestofq.agents.prompting import picture_unit, render
from bestofq.agents.structured_output import Prompt, Prompts, ask
from bestofq.core.decision import Located
from bestofq.core.errors import ConfigError, ReplyError
from bestofq.core.language import Reply, Request, user
from bestofq.core.observation import Element, Observation, Point, Screenshot
from bestofq.core.picture import Picture
from bestofq.core.protocols import Localizer, VisionModel
from bestofq.core.usage import merge_usage

POINT = object_schema({"x": {"type": "integer"}, "y": {"type": "integer"}})
LEAST_SCORE = 0.6  # of the best element
LEAST_LEAD = 0.04  # of the best element's score over the second's
NOTHING_FITS = 'No element of the page fits "{target}".'
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


class PageLocalizer:
    """`Localizer` by fuzzy comparison of names, with roles as a tie-break. It refuses rather than guesses: if nothing
    fits well enough, or if the second best fits about as well."""

    async def locate(self, observation: Observation, target: str) -> Located:
        """The middle of the element, or why it is ambiguous. Uses nothing."""
        ranked = rank_elements(observation, target)
        if not ranked or ranked[0][0] < LEAST_SCORE:
            return Located(refusal=NOTHING_FITS.format(target=target))
        (score, best), *others = ranked
        rivals = [element for other, element in others if score - other < LEAST_LEAD]
        if rivals:
            names = "; ".join(f"{e.role} {e.name} [{e.mark}]" for e in (best, *rivals[:3]))
            return Located(
                refusal=f'"{target}" fits several elements: {names}. Describe the one you mean more closely.'
            )
        if (box := best.box) is None:
            return Located(refusal=f'"{target}" is {best.role} {best.name}, which has no place on the page.')
        return Located(point=Point(box.x + box.width / 2, box.y + box.height / 2))


def rank_elements(observation: Observation, target: str) -> list[tuple[float, Element]]:
    """All elements with how well each fits the words, in [0, 1], the best first."""
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
    scored = [(_score(element, wanted, whole, kinds, roles), element) for element in observation.elements]
    return sorted(scored, key=lambda pair: -pair[0])


def _score(element: Element, wanted: str, whole: str, kinds: set[str], roles: set[str]) -> float:
    """Mostly the name: its similarity to the words without role words, and to all of them. Words for a button mean no
    field, and words for a field no button, unless they belong to its name ("gift box")."""
    name = default_process(f"{element.name} {element.value or ''}")
    similarity = max(_similarity(name, wanted), 0.9 * _similarity(name, whole)) if name else 0.0
    if element.role in roles and (not wanted or (wanted, element.role) == ("search", "searchbox")):
        similarity = max(similarity, 0.7)  # the role says it all
    if not roles or element.role in roles:
        return similarity
    other = bool(roles & _WRITTEN) != (element.role in _WRITTEN)
    return similarity * (0.5 if other and not kinds & set(name.split()) else 0.75)


def _similarity(name: str, words: str) -> float:
    """Shared words count most. Closeness as a whole breaks ties."""
    return (0.7 * token_set_ratio(name, words) + 0.3 * ratio(name, words)) / 100


@dataclass(frozen=True)
class VisionLocalizer:
    """`Localizer` by a chat endpoint that answers with a click in JSON, `{"x": 352, "y": 348}`, as Holo1.5 does.

    The point is in pixels of the picture as it was sent, or in thousandths (`ChatConfig.coordinates`). An unreadable
    reply, or a point outside the picture, gets one repair turn and then is a refusal.
    """

    model: VisionModel

    async def locate(self, observation: Observation, target: str) -> Located:
        """The point, or a refusal. ModelError if the endpoint gives no reply, ContextError if the smallest picture is
        too large for it, ConfigError if the environment takes no screenshots."""
        shot = observation.screenshot
        if shot is None or not shot.data:
            raise ConfigError(
                "a model can find elements on screenshots only, and there are none: set suite.env=browser and "
                "suite.screenshots=true"
            )

        def read(replies: Sequence[Reply], picture: Picture | None) -> Point:
            assert picture is not None
            return json_of(replies[0], lambda data: point_of(data, picture))

        try:
            point, usage = await ask(self.model, self._prompts(shot, target), read, "localizer")
        except ReplyError as error:
            return Located(refusal=f'"{target}" was not found on the screenshot: {error}.', usage=error.usage)
        return Located(point=point, usage=usage)

    async def _prompts(self, shot: Screenshot, target: str) -> Prompts:
        pixels: int | None = None
        while True:
            picture = await self.model.picture(shot, pixels)
            text = render("localizer", target=target, unit=picture_unit(picture))
            request = Request(messages=user(text, (shot,)), schema=POINT, name="click", pixels=picture.limits.most)
            yield Prompt(request=request, picture=picture)
            if picture.half is None:
                return
            pixels = picture.half


@dataclass(frozen=True)
class FallbackLocalizer:
    """`Localizer`: `first`, and `second` if it refuses: the page, which costs nothing, then a model (A.1)."""

    first: Localizer
    second: Localizer

    async def locate(self, observation: Observation, target: str) -> Located:
        """The first point. If both refuse, the first's words, which name what the page holds."""
        first = await self.first.locate(observation, target)
        if first.point is not None:
            return first
        second = await self.second.locate(observation, target)
        usage = merge_usage((*first.usage, *second.usage))
        return (first if second.point is None else second).model_copy(update={"usage": usage})
