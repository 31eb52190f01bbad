"""How alike two tasks are: the share of their word pairs that they have in common (Jaccard).

Numbers, months and the site's own name are left out: a task that was moved to another day or site is the same task.
Pairs, not words: flights from A to B are not those from B to A. The same said in quite other words is not seen.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from bestofq.envs.webvoyager.dates import MONTH
from bestofq.envs.webvoyager.source import Entry

NEAR = 0.6
"""From here on two tasks count as one. Of WebVoyager's own, each of the 68 that the patched list words anew is at least
0.71 like what it was; 11 of the 643, none of them of Google Flights, are so near to another of their domain: the same
words but for one or two."""
_WORD = re.compile(r"[^\W_]+")
_LEFT_OUT = re.compile(rf"\b{MONTH}(?!\w)")
Shape = frozenset[tuple[str, ...]]


class Nearest(NamedTuple):
    """The most similar of the tasks compared with: its key, and how alike, in [0, 1]."""

    key: str
    similarity: float


def shape_of(text: str, site: str) -> Shape:
    """The word pairs of a task on a site; of a single word, the word. Empty where numbers are all there is."""
    plain = _LEFT_OUT.sub(" ", text.lower().replace(site.lower(), " "))
    words = [word for word in _WORD.findall(plain) if not word[0].isdigit()]
    return frozenset(pairwise(words) if len(words) > 1 else [(word,) for word in words])


def similarity(a: Shape, b: Shape) -> float:
    """|a ∩ b| / |a ∪ b|; 1 for two that are empty."""
    return len(a & b) / len(a | b) if a or b else 1.0


class Known:
    """Tasks that a new one is compared with."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._shapes: list[tuple[str, Shape]] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        self._shapes.append((entry.key, shape_of(entry.ques, entry.web_name)))

    def nearest(self, text: str, site: str) -> Nearest:
        """The most similar one, the first among equals; of none, similarity 0."""
        shape = shape_of(text, site)
        found = (Nearest(key, similarity(shape, known)) for key, known in self._shapes)
        return max(found, key=lambda one: one.similarity, default=Nearest("", 0.0))
