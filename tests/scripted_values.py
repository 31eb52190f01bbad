"""An embedder and a Q-function by which scores are worked out by hand."""

from collections.abc import Sequence

import numpy as np

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.transitions import Floats


class Lengths:
    """An embedder whose vector is the length of the text, seven tokens each."""

    spec = EmbedSpec(model="lengths", revision="1", dim=1)

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.array([[len(item.text)] for item in items], dtype=np.float32), 7 * len(items)


class Sum:
    """Q is the sum of its three vectors' numbers, V that of two."""

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        return (state[:, None] + action + task[:, None])[..., 0]

    def v(self, state: Floats, task: Floats) -> Floats:
        return (state + task)[..., 0]
