"""Train, dev and test by a hash of each key. The split of a key depends on no other key."""

import hashlib
from collections.abc import Mapping

from bestofq.core.observation import Split

SHARES: Mapping[Split, float] = {"train": 0.6, "dev": 0.2, "test": 0.2}  # in expectation; their sum is 1


def split_of(key: str, seed: int) -> Split:
    """The split of a product or a task, by a hash of seed and key."""
    point = uniform(f"{seed}-{key}")
    if point < SHARES["train"]:
        return "train"
    return "dev" if point < SHARES["train"] + SHARES["dev"] else "test"


def uniform(key: str) -> float:
    """A number in [0, 1) that depends on the key alone, evenly spread."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
