"""Logged decisions as arrays: all that off-policy evaluation reads of them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from bestofq.core.transitions import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChoices:
    """T steps of E episodes, one after the other, each with N candidates or fewer, the proposer's first in column 0."""

    episode: Ints  # [T] 0 to E - 1, ascending
    task: tuple[Hashable, ...]  # [E]
    success: Bools  # [E]
    tokens: Floats  # [E] that the agent used, in and out
    usd: Floats  # [E] NaN where a price is not known
    q: Floats  # [T, N] of each candidate; -∞ beyond the last
    value: Floats  # [T] V(s)
    chosen: Ints  # [T] the column taken
    propensity: Floats  # [T, N] with which the agent takes each candidate, 0 beyond the last; NaN: it does not tell

    def __post_init__(self) -> None:
        for name in ("q", "value", "chosen", "propensity"):
            if len(getattr(self, name)) != len(self.episode):
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, episode has {len(self.episode)}")
        for name in ("success", "tokens", "usd"):
            if len(getattr(self, name)) != len(self.task):
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, task has {len(self.task)}")

    @property
    def last(self) -> Bools:
        """[T] whether a step is the last of its episode."""
        return np.append(self.episode[1:] != self.episode[:-1], True)

    def of(self, kept: Bools) -> "LoggedChoices":
        """Of these episodes alone [E]."""
        rows = kept[self.episode]
        return LoggedChoices(
            episode=(np.cumsum(kept) - 1)[self.episode[rows]],
            task=tuple(task for task, keep in zip(self.task, kept, strict=True) if keep),
            success=self.success[kept],
            tokens=self.tokens[kept],
            usd=self.usd[kept],
            q=self.q[rows],
            value=self.value[rows],
            chosen=self.chosen[rows],
            propensity=self.propensity[rows],
        )

    @classmethod
    def concatenate(cls, parts: "Sequence[LoggedChoices]") -> "LoggedChoices":
        """The episodes of all, one after the other."""
        width = max(part.q.shape[1] for part in parts)
        begins = np.cumsum([0, *(len(part.task) for part in parts)])

        def wide(of: str, beyond: float) -> Floats:
            tables = [getattr(part, of) for part in parts]
            pads = [((0, 0), (0, width - table.shape[1])) for table in tables]
            return np.concatenate([np.pad(t, pad, constant_values=beyond) for t, pad in zip(tables, pads, strict=True)])

        return cls(
            episode=np.concatenate([part.episode + at for part, at in zip(parts, begins[:-1], strict=True)]),
            task=tuple(task for part in parts for task in part.task),
            success=np.concatenate([part.success for part in parts]),
            tokens=np.concatenate([part.tokens for part in parts]),
            usd=np.concatenate([part.usd for part in parts]),
            q=wide("q", -np.inf),
            value=np.concatenate([part.value for part in parts]),
            chosen=np.concatenate([part.chosen for part in parts]),
            propensity=wide("propensity", 0.0),
        )
