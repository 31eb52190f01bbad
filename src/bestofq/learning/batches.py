"""Random batches of transitions, drawn from a table of vectors that stays on the device."""

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions


class Batch(NamedTuple):
    """B transitions."""

    state: Tensor  # [B, D]
    action: Tensor  # [B, D]
    task: Tensor  # [B, D]
    next_state: Tensor  # [B, D]
    reward: Tensor  # [B] float32
    continues: Tensor  # [B] float32: 1, or 0 at a terminal step
    drawn: Tensor  # [B] int64, which transitions they are


class Batches:
    """Batch k is drawn with replacement by a generator seeded with (seed, k): the same after every resumption."""

    def __init__(
        self, data: Transitions, *, batch_size: int, seed: int, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        check(data)
        self.size, self.batch_size, self.seed, self.device = len(data), batch_size, seed, device
        vectors = torch.from_numpy(np.require(data.vectors, np.float32, ["C", "W"]))
        self.table = vectors.to(dtype).to(device)
        rows = np.stack([data.state, data.action, data.task, data.next_state])  # [4, T]
        self.rows = torch.from_numpy(rows).to(device)
        self.scalars = torch.from_numpy(np.stack([data.reward, 1.0 - data.terminal]).astype(np.float32)).to(device)

    def __getitem__(self, step: int) -> Batch:
        return self.at(self.draw(step))

    def draw(self, step: int) -> Tensor:
        """Return the numbers of those transitions, [B] int64 on the CPU."""
        drawn = np.random.default_rng([self.seed, step]).integers(self.size, size=self.batch_size)
        return torch.from_numpy(drawn)

    def at(self, drawn: Tensor) -> Batch:
        drawn = drawn.to(self.device)
        rows = self.rows[:, drawn]
        vectors = self.table.index_select(0, rows.flatten()).view(*rows.shape, -1)  # [4, B, D]
        state, action, task, next_state = vectors.unbind()
        reward, continues = self.scalars[:, drawn].unbind()
        return Batch(state, action, task, next_state, reward, continues, drawn)


def check(data: Transitions) -> None:
    """DataError where there is nothing to learn from, or a vector holds no numbers."""
    if not len(data):
        raise DataError("There are 0 transitions to train on; collect episodes first (`bestofq collect`).")
    bad = np.flatnonzero(~np.isfinite(data.vectors).all(axis=1))
    if len(bad):
        raise DataError(f"{len(bad)} of {len(data.vectors)} embedding vectors hold NaN or inf, the first is {bad[0]}.")


def fingerprint(data: Transitions) -> str:
    """16 hex digits that depend on every number of the data."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("vectors", "state", "action", "task", "next_state", "reward", "terminal"):
        digest.update(np.ascontiguousarray(getattr(data, name)).data)
    return digest.hexdigest()
