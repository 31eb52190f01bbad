"""A lookup table of outcomes, as a plain opponent of `learning.memory`: fewer keys, and no targets but outcomes."""

from collections.abc import Iterable
from typing import Self
from unittest.mock import patch

from bestofq.learning.config import EpisodeSet
from bestofq.learning.memory import Experience, Keys, Memory


class Table(Memory):
    """Mean outcomes under the page, the page and the action without the goal's words, and the goal too."""

    @classmethod
    def learn(cls, experiences: Iterable[Experience], *, train_n: int, episodes: EpisodeSet | None = None) -> Self:
        with patch.multiple("bestofq.learning.memory", DISCOUNT=1.0, TRACE=1.0, SWEEPS=0):
            found = super().learn(experiences, train_n=train_n, episodes=episodes)
        return cls(found.table, found.mean, train_n, episodes)

    def recall(self, keys: Keys, prior: float | None = None) -> float:
        return super().recall(_own(keys), prior)

    def familiarity(self, keys: Keys) -> int:
        return super().familiarity(_own(keys))


def _own(keys: Keys) -> Keys:
    """All but the second: the kind of action and how its words fit the goal."""
    return [*keys[:1], *keys[2:]]
