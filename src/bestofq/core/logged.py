"""Logged decisions as arrays: all that off-policy evaluation reads of them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from bestofq.core.transitions import Bools, Floats, Ints

_BY_STEP = ("q", "level", "chosen", "propensity")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoices:
    """T steps of E episodes, one after the other, each with N candidates or fewer, the proposer's first in column 0."""

    episode: Ints  # [T] 0 to E - 1, ascending
    task: tuple[Hashable, ...]  # [E]
    success: Bools  # [E]
    q: Floats  # [T, N] of each candidate; -∞ beyond the last
    level: Ints  # [T, N] how familiar each candidate is (`core.gate.FAMILIARITY`), 0 beyond the last
    chosen: Ints  # [T] the column taken
    propensity: Floats  # [T, N] with which the agent takes each candidate, 0 beyond the last; NaN: it does not tell

    @property
    def last(self) -> Bools:
        """[T] whether a step is the last of its episode."""
        return np.append(self.episode[1:] != self.episode[:-1], True)

    def of(self, kept: Bools) -> "LoggedChoices":
        """Return only these episodes [E]."""
        rows = kept[self.episode]
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _BY_STEP}
        columns["success"] = self.success[kept]
        task = tuple(compress(self.task, kept))
        return LoggedChoices(episode=(np.cumsum(kept) - 1)[self.episode[rows]], task=task, **columns)

    @classmethod
    def concatenate(cls, parts: "Sequence[LoggedChoices]") -> "LoggedChoices":
        """Return the episodes of all parts, one after the other."""
        width = max(part.q.shape[1] for part in parts)
        begins = np.cumsum([0, *(len(part.task) for part in parts)])

        def column(name: str, part: LoggedChoices) -> Floats:
            values: Floats = getattr(part, name)
            if values.ndim == 1:
                return values
            beyond = -np.inf if name == "q" else 0.0
            return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=beyond)

        columns: dict[str, Any] = {
            name: np.concatenate([column(name, part) for part in parts]) for name in ("success", *_BY_STEP)
        }
        episode = np.concatenate([part.episode + at for part, at in zip(parts, begins[:-1], strict=True)])
        return cls(episode=episode, task=tuple(task for part in parts for task in part.task), **columns)
