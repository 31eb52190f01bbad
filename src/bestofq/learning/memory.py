"""Outcomes remembered by what was done: a value function without gradients and without embeddings."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bestofq.core.errors import CheckpointError
from bestofq.core.files import write_whole
from bestofq.core.frozen import reason_of
from bestofq.core.gate import Gate
from bestofq.core.transitions import Floats
from bestofq.learning.config import EpisodeSet

FILE = "memory.safetensors"
KEYS = 4
"""Version of the keys (`agents.scorers.memory.memory_keys`). A memory of other keys would know nothing."""
PSEUDO_COUNTS = 2.0
"""Weight of the coarser key's value, in outcomes."""
DISCOUNT, TRACE, SWEEPS = 0.95, 0.5, 5
"""γ and λ of the targets, and how often they are computed anew. Chosen on held-out training and dev tasks
(experiments/memory)."""

Keys = Sequence[str]
"""What names an action, from coarse to fine: the same number for every action."""


class Experience(NamedTuple):
    """An episode: of each step the keys of its candidates [N] and which of them was taken; and how it ended."""

    steps: Sequence[tuple[Sequence[Keys], int]]
    outcome: float  # in [0, 1]


@dataclass(frozen=True)
class Memory:
    """Sums and numbers of targets, by hashed keys.

    The value of an action is the mean target under each of its keys, shrunk from each key to the next coarser one.
    v ← (sum + k v) / (n + k), with k = `PSEUDO_COUNTS`. An action that nobody took has the value of actions like it.

    The target of the last step is the episode's outcome. That of another step is Q(λ)'s, with the best of all
    candidates of the next step, taken or not (Watkins 1989; Peng and Williams 1996):

        y_t = γ (λ y_{t+1} + (1 - λ) max_a Q(s_{t+1}, a))

    So an action is worth what a good choice makes of it, not what the exploring agent made of it.

    Args:
        table: sum and number of targets by key, each key 64 bits of a hash.
        mean: of all targets, the value of an action without any known key.
        train_n: N, candidates that the episodes chose among.
        episodes: that it comes from; None: unknown.
        gate: of a decision by these values; None: none was calibrated.
    """

    table: Mapping[int, tuple[float, float]]
    mean: float
    train_n: int
    episodes: EpisodeSet | None = None
    gate: Gate | None = None

    discount = DISCOUNT

    @property
    def memory(self) -> "Memory":
        return self

    @classmethod
    def learn(cls, experiences: Iterable[Experience], *, train_n: int, episodes: EpisodeSet | None = None) -> "Memory":
        """Remember the targets of each step's action, under each of its keys."""
        numbers: dict[int, int] = {}
        rows, begins, taken, ends, outcomes = list[list[int]](), list[int](), list[int](), list[bool](), list[float]()
        for experience in experiences:
            for step, (candidates, chosen) in enumerate(experience.steps, 1):
                begins.append(len(rows))
                taken.append(len(rows) + chosen)
                ends.append(step == len(experience.steps))
                outcomes.append(experience.outcome)
                rows += [[numbers.setdefault(_hash_key(key), len(numbers)) for key in keys] for keys in candidates]
        if not rows:
            return cls({}, 0.0, train_n, episodes)
        keys, size = np.array(rows), len(numbers)  # [M, L]
        own = keys[taken]  # [T, L]
        counts = np.bincount(own.ravel(), minlength=size)
        best, targets = np.zeros(len(taken)), np.zeros(len(taken))
        sums: Floats = np.zeros(size, np.float32)
        for sweep in range(SWEEPS + 1):
            trace = TRACE if sweep else 1.0  # nothing is known at first
            for step in reversed(range(len(taken))):
                after = 0.0 if ends[step] else trace * targets[step + 1] + (1 - trace) * best[step + 1]
                targets[step] = outcomes[step] if ends[step] else DISCOUNT * after
            sums = np.bincount(own.ravel(), np.repeat(targets, own.shape[1]), minlength=size).astype(np.float32)
            values = np.full(len(keys), targets.mean())
            for level in keys.T:
                values = (sums[level] + PSEUDO_COUNTS * values) / (counts[level] + PSEUDO_COUNTS)
            best = np.maximum.reduceat(values, begins)
        table = {key: (float(sums[row]), float(counts[row])) for key, row in numbers.items() if counts[row]}
        return cls(table, float(targets.mean()), train_n, episodes)

    def recall(self, keys: Keys, prior: float | None = None) -> float:
        """Return the value of an action. `prior`: what the coarsest key shrinks to. Default: the mean target."""
        value = self.mean if prior is None else prior
        for key in keys:
            total, number = self.table.get(_hash_key(key), (0.0, 0.0))
            value = (total + PSEUDO_COUNTS * value) / (number + PSEUDO_COUNTS)
        return value

    def familiarity(self, keys: Keys) -> int:
        """Return how many of an action's keys are known, from the coarsest on."""
        return sum(_hash_key(key) in self.table for key in keys)

    @property
    def checkpoint(self) -> str:
        return f"memory-{_digest(self._arrays())}"

    def save(self, folder: Path) -> None:
        """Write it into a folder, in one move."""
        facts = {"mean": self.mean, "train_n": self.train_n, "keys": KEYS, "digest": _digest(self._arrays())}
        if self.episodes:
            facts["episodes"] = self.episodes.model_dump(mode="json")
        write_whole(folder / FILE, save(self._arrays(), {"memory": json.dumps(facts)}))

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
            table = dict(zip(arrays["keys"].tolist(), rows, strict=True))
            memory = cls(table, facts["mean"], facts["train_n"], episodes)
            whole = facts["digest"] == _digest(arrays)
        except (SafetensorError, LookupError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read ({reason_of(error)}): train again") from error
        if facts.get("keys") != KEYS:
            raise CheckpointError(f"{path} has the keys of another version of bestofq: train again")
        if not whole:
            raise CheckpointError(f"{path} is not what was written. Put back a copy, or train again.")
        return replace(memory, gate=Gate.load(folder, memory.checkpoint))

    def _arrays(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
        keys = sorted(self.table)
        rows = np.array([self.table[key] for key in keys], np.float32).reshape(-1, 2)
        return {"keys": np.array(keys, np.uint64), "sums": rows[:, 0].copy(), "counts": rows[:, 1].copy()}


def _hash_key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest())


def _digest(arrays: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> str:
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()[:16]
