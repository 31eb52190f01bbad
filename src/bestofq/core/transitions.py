"""The training set of Q and V as arrays: a table of distinct vectors, and indices into it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transitions:
    """(s, a, r, s', terminal) of T steps over U distinct vectors of D numbers (Best-of-Q, 3.2). Running out of the
    suite's own steps is terminal with reward 0; episodes cut by the infrastructure are not here."""

    vectors: Floats  # [U, D]
    state: Ints  # [T] rows of `vectors`
    action: Ints  # [T]
    task: Ints  # [T]
    next_state: Ints  # [T]; at a terminal step any valid row, never read
    reward: Floats  # [T] in [0, 1]
    terminal: Bools  # [T]
    candidates: Ints | None = None  # [T, N] as they were offered, -1 beyond a step's last; None: left out

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def ends(self) -> Ints:
        """[T], the last row of each row's episode; episodes lie one after the other."""
        last = np.flatnonzero(self.terminal)
        return last[np.searchsorted(last, np.arange(len(self)))]

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])
