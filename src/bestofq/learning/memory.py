"""Outcomes remembered by what was done: a value function without gradients and without embeddings."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bestofq.core.errors import CheckpointError
from bestofq.core.files import whole_file
from bestofq.learning.config import EpisodeSet

FILE = "memory.safetensors"
PSEUDO_COUNTS = 2.0
"""Weight of the coarser key's value, in outcomes."""

Keys = Sequence[str]
"""What names an action, from coarse to fine."""


class Recalled(NamedTuple):
    """A value in [0, 1], and how many outcomes each key has: how sure the value is."""

    value: float
    counts: tuple[float, ...]


@dataclass(frozen=True)
class Memory:
    """Sums and numbers of outcomes, by hashed keys.

    The value of an action is the mean outcome under each of its keys, shrunk from each key to the next coarser one:
    v ← (sum + k v) / (n + k), with k = `PSEUDO_COUNTS`. An action that nobody took has the value of actions like it.

    Args:
        table: sum and number of outcomes by key, each key 64 bits of a hash.
        mean: outcome of the mean episode, the value of an action without any known key.
        train_n: N, candidates that the episodes chose among.
        episodes: that it comes from; None: unknown.
    """

    table: Mapping[int, tuple[float, float]]
    mean: float
    train_n: int
    episodes: EpisodeSet | None = None

    discount = 1.0

    @property
    def memory(self) -> "Memory":
        return self

    @classmethod
    def learn(
        cls, steps: Iterable[tuple[Keys, float]], *, train_n: int, episodes: EpisodeSet | None = None
    ) -> "Memory":
        """Remember the outcome in [0, 1] of each step's action, under each of its keys."""
        table: dict[int, tuple[float, float]] = {}
        total = number = 0.0
        for keys, outcome in steps:
            total, number = total + outcome, number + 1
            for key in map(_hash_key, keys):
                known = table.get(key, (0.0, 0.0))
                table[key] = known[0] + outcome, known[1] + 1
        return cls(table, total / number if number else 0.0, train_n, episodes)

    def recall(self, keys: Keys, prior: float | None = None) -> Recalled:
        """Return the value of an action. `prior`: what the coarsest key shrinks to. Default: the mean outcome."""
        value, counts = self.mean if prior is None else prior, []
        for key in keys:
            total, number = self.table.get(_hash_key(key), (0.0, 0.0))
            value = (total + PSEUDO_COUNTS * value) / (number + PSEUDO_COUNTS)
            counts.append(number)
        return Recalled(value, tuple(counts))

    @property
    def checkpoint(self) -> str:
        """Names what it learned, by a hash of it."""
        return f"memory-{_digest(self._arrays())}"

    def save(self, folder: Path) -> None:
        """Write it into a folder, in one move."""
        facts = {"mean": self.mean, "train_n": self.train_n, "digest": _digest(self._arrays())}
        if self.episodes:
            facts["episodes"] = self.episodes.model_dump(mode="json")
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / FILE) as file:
            file.write(save(self._arrays(), {"memory": json.dumps(facts)}))

    @classmethod
    def load(cls, folder: Path) -> "Memory":
        """Read it. CheckpointError if there is none, or it is not what was written."""
        path = folder / FILE
        if not path.exists():
            raise CheckpointError(f"There is no {FILE} in {folder}. Make it by `bestofq train`.")
        try:
            with safe_open(path, framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in ("keys", "sums", "counts")}
                facts = json.loads((file.metadata() or {})["memory"])
            episodes = EpisodeSet.model_validate(facts["episodes"]) if "episodes" in facts else None
            rows = zip(arrays["sums"].tolist(), arrays["counts"].tolist(), strict=True)
            memory = cls(
                dict(zip(arrays["keys"].tolist(), rows, strict=True)), facts["mean"], facts["train_n"], episodes
            )
            whole = facts["digest"] == _digest(arrays)
        except (SafetensorError, LookupError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        if not whole:
            raise CheckpointError(f"{path} is not what was written. Put back a copy, or train again.")
        return memory

    def _arrays(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
        keys = sorted(self.table)
        rows = np.array([self.table[key] for key in keys], np.float32).reshape(-1, 2)
        return {"keys": np.array(keys, np.uint64), "sums": rows[:, 0].copy(), "counts": rows[:, 1].copy()}


def _hash_key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest())


def _digest(arrays: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> str:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        whole.update(arrays[name].tobytes())
    return whole.hexdigest()[:16]
