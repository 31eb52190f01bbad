"""Embedders without any likeness: each text is a random vector drawn from its hash, equal texts alone are alike.

What Q learns over these vectors it learns of each text by itself: a Q over a model's embeddings that does worse on the
tasks it was trained on has lost in them what the episodes hold; one that does better gains by their likeness.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from bestofq.core.embedding import EmbedConfig, EmbedItem, EmbedSpec
from bestofq.models.cached_embedder import CachedEmbedder, Vector

DIM = 256


class OneHot(CachedEmbedder):
    """Each text as it is: `--set model.embedder=experiments.one_hot:OneHot`."""

    def __init__(self, how: EmbedConfig) -> None:
        spec = EmbedSpec(model="one-hot", revision="1", prompt=how.prompt, context=how.context, dim=DIM)
        super().__init__(spec, batch=512)

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        return [Vector(drawn(item.text), len(item.text.split())) for item in items]


def drawn(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """A vector [D] of independent standard normal numbers."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
