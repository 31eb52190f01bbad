"""Agents that ask in plain words, without tools and without a schema. They reply with JSON, a command or other words.

What such a request shows is found by its lines: `Goal: …`, `Title: …`, `URL: …`, and the page's numbered elements.
"""

import json
import re
from collections.abc import Sequence

from bestofq.agents.dialects.json import MOST_MARKS, parse_candidates
from bestofq.agents.json_replies import values_of
from bestofq.core.actions import Other
from bestofq.core.decision import Candidate
from bestofq.core.errors import ReplyError
from bestofq.core.language import remove_thoughts
from bestofq.core.observation import Element, Observation
from bestofq.interop.actions import candidate_of
from bestofq.interop.nouns import element_of, json_of

_BEFORE = r"^[^\w\n]{0,9}(?:(?:the|your|user'?s?|current|page)[ \t]+)*"
_GOAL = re.compile(rf"{_BEFORE}(?:goal|task|objective|instruction|request)s?\W{{0,9}}:\W{{0,9}}(\w.*)$", re.I | re.M)
_PAGE = {
    "title": re.compile(rf"{_BEFORE}(?:title|page)\W{{0,9}}:\W{{0,9}}(\w.*)$", re.I | re.M),
    "url": re.compile(rf"{_BEFORE}(?:url|address)\W{{0,9}}:\W{{0,9}}(\w.*)$", re.I | re.M),
}
_NUMBERED = (
    re.compile(r"^[^\w\n]{0,9}\[(\d{1,4})\]:?[ \t]*(\S.*)$", re.M),
    re.compile(r"^[^\w\n]{0,9}(?:[a-zA-Z]+[ \t]+)?(\d{1,4})[.:)][ \t]*(\S.*)$", re.M),
)
_BEFORE_ACTION = re.compile(r"^\W*(?:next\s+)?(?:action|command)\W*:[\s*`]*", re.I)
_REACT = re.compile(
    r"^\W*Action\W*:\W*(\w[\w ]*)\W*\n\W*Action Input\W*:[\s*`]*(.*?)\s*(?:^\W*Observation\W*:|\Z)", re.I | re.M | re.S
)
_TAG = re.compile(r"<(\w+)[^>]*>([^<]*)")
_ROLE = re.compile(
    r"(button|link|textbox|input|select|checkbox|radio|tab|combobox|searchbox|textarea|a)\b\W*(.*)", re.I
)
_THOUGHTS = ("thought", "thoughts", "thinking", "reason", "reasoning", "explanation", "memory", "note")


def read_page(seen: Observation, texts: Sequence[str]) -> tuple[str, Observation]:
    """The goal in what was said so far, empty where no line names it, and what is seen with its title and elements."""
    goal = next((found[1] for text in texts if (found := _GOAL.search(text))), "")
    facts = {name: found[1].strip() for name, line in _PAGE.items() if (found := line.search(seen.text))}
    elements = max(_elements(seen.text), seen.elements, key=len)
    return goal.strip(), seen.model_copy(update={"elements": elements, **facts})


def plain_candidate(words: str, seen: Observation) -> Candidate:
    """What a reply would do, all its actions together. Words that name no action are `Other`, without thoughts."""
    words, values = remove_thoughts(words).strip("`* \n") or words, []
    if react := _REACT.search(words):
        given = [*filter(lambda one: isinstance(one, dict), values_of(react[2]))][:1]
        words = json_of({"type": react[1], **given[0]}) if given else f"{react[1]} {react[2]}"
    try:
        said = json_of(values_of(words))
        values = json.loads(said, object_hook=lambda one: {n: one[n] for n in one if n not in _THOUGHTS})
        found = parse_candidates(values or _BEFORE_ACTION.sub("", words.rpartition("\n")[2]), seen, MOST_MARKS, "mark")
        return candidate_of([one.action for one in found], seen.elements)
    except ReplyError:
        return candidate_of([Other(text="; ".join(map(json_of, values)) or words)], seen.elements)


def _elements(text: str) -> tuple[Element, ...]:
    """Those in lines that begin with a number: in brackets, or where there is none, before a dot or a colon."""
    lines = next(filter(None, (pattern.findall(text) for pattern in _NUMBERED)), [])
    found = {}
    for mark, line in lines:
        parted = _TAG.search(line) or _ROLE.match(line)
        role, name = parted.groups() if parted else ("", line)
        if element := element_of(int(mark), role, name.strip(" \"'")):
            found[element.mark] = element
    return tuple(found.values())
