"""The learned Q and V for inference: numpy in, numpy out."""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.transitions import Floats
from bestofq.learning.networks import QNetwork, VNetwork, fold_projections

_KEPT = 512  # lone vectors' parts, each 4 × (D + H) bytes


class ValueModel:
    """Q(s, a) and V(s) in evaluation mode.

    Args:
        embed: spec of the vectors that they read.
        train_n: N of their training (Table 4).
        checkpoint: their file's name, which has its hash. None: unknown.
        discount: of their training. None: unknown.
    """

    def __init__(
        self,
        q: QNetwork,
        v: VNetwork,
        *,
        embed: EmbedSpec,
        train_n: int,
        step: int = 0,
        checkpoint: str | None = None,
        discount: float | None = None,
    ) -> None:
        if q.dim != embed.dim or v.dim != embed.dim:
            raise CheckpointError(f"Q reads {q.dim} numbers and V {v.dim}, the EmbedSpec says {embed.dim}.")
        self.q_network, self.v_network = fold_projections(q).eval(), fold_projections(v).eval()
        self.embed, self.train_n, self.step = embed, train_n, step
        self.checkpoint, self.discount = checkpoint, discount
        self._keep()

    def _keep(self) -> None:
        """What lone vectors gave: a task stays the same for an episode, a state for all its candidates."""
        self._part_kept = lru_cache(_KEPT)(self._part)
        self._value_kept = lru_cache(_KEPT)(self._value)

    def __getstate__(self) -> dict[str, Any]:
        """To be sent to another process: without what is kept."""
        return {name: value for name, value in vars(self).items() if name not in ("_part_kept", "_value_kept")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._keep()

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        """state [B, D], action [B, N, D], task [B, D] -> [B, N]; or action [B, D] -> [B]."""
        if action.ndim == 3:
            state, task = state[:, None], task[:, None]
        return self._value(self.q_network, *map(self._content, (state, action, task)))

    def v(self, state: Floats, task: Floats) -> Floats:
        """state [B, D], task [B, D] -> [B]."""
        value = self._value_kept if state.size == task.size == self.embed.dim else self._value
        return value(self.v_network, self._content(state), self._content(task)).copy()

    def prepare(self, state: Floats, task: Floats) -> None:
        """Do ahead what does not depend on the action, of one state [1, D] and task [1, D]."""
        self.v(state, task)
        for index, vectors in ((0, state), (2, task)):
            self._part_kept(self.q_network, index, self._content(vectors[:, None]))

    @torch.inference_mode()
    def _value(self, network: QNetwork | VNetwork, *contents: "_Content") -> Floats:
        parts = [
            (self._part_kept if content.lone else self._part)(network, index, content)
            for index, content in enumerate(contents)
        ]
        values: np.ndarray[Any, np.dtype[np.float32]] = network.value_of(*parts).cpu().numpy()
        return values

    @torch.inference_mode()
    def _part(self, network: QNetwork | VNetwork, index: int, content: "_Content") -> Tensor:
        """[..., H], of vectors [..., D]."""
        vectors = torch.frombuffer(bytearray(content.data), dtype=torch.float32).reshape(content.shape)
        return network.part(index, vectors.to(network.out.weight.device))

    def _content(self, vectors: Floats) -> "_Content":
        if vectors.shape[-1] != self.embed.dim:
            raise CheckpointError(
                f"A vector has {vectors.shape[-1]} numbers, but Q and V were trained on {self.embed.dim} "
                f"(embeddings of {self.embed.model})."
            )
        single = np.asarray(vectors, np.float32)
        return _Content(single.shape, single.tobytes())


class _Content(NamedTuple):
    shape: tuple[int, ...]
    data: bytes

    @property
    def lone(self) -> bool:
        return prod(self.shape[:-1]) == 1
