"""The learned Q and V for inference: numpy in, numpy out."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.gate import Gate
from bestofq.core.transitions import Floats
from bestofq.learning.memory import Memory
from bestofq.learning.networks import QNetwork, VNetwork, fold_projections

MAX_KEPT_PARTS = 1024  # each has 4 × (D + H) bytes


class ValueModel:
    """Q(s, a) and V(s) in evaluation mode.

    Args:
        embed: spec of the vectors that they read.
        train_n: N of their training (Table 4).
        checkpoint: their file's name, which has its hash. None: unknown.
        discount: of their training. None: unknown.
        memory: of the same episodes. None: from before it was kept.
        gate: of a decision by these values. None: none was calibrated.
    """

    def __init__(
        self,
        q: QNetwork,
        v: VNetwork,
        *,
        embed: EmbedSpec,
        train_n: int,
        checkpoint: str | None = None,
        discount: float | None = None,
        memory: Memory | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.q_network, self.v_network = fold_projections(q).eval(), fold_projections(v).eval()
        self.embed, self.train_n = embed, train_n
        self.checkpoint, self.discount, self.memory, self.gate = checkpoint, discount, memory, gate
        self._parts: dict[tuple[bool, int, tuple[int, ...], bytes], Tensor] = {}
        """Parts of single vectors: a task stays the same for an episode, a state for all its candidates."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_parts": {}}  # another process computes its own

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        """state [B, D], action [B, N, D], task [B, D] -> [B, N]; or action [B, D] -> [B]."""
        if action.ndim == 3:
            state, task = state[:, None], task[:, None]
        return self._value(self.q_network, state, action, task)

    def v(self, state: Floats, task: Floats) -> Floats:
        """state [B, D], task [B, D] -> [B]."""
        return self._value(self.v_network, state, task)

    def prepare(self, state: Floats, task: Floats) -> None:
        """Compute ahead what does not depend on the action, for one state [1, D] and task [1, D]."""
        self.v(state, task)
        for index, vectors in ((0, state), (2, task)):
            self._part(self.q_network, index, vectors[:, None])

    @torch.inference_mode()
    def _value(self, network: QNetwork | VNetwork, *inputs: Floats) -> Floats:
        parts = [self._part(network, index, vectors) for index, vectors in enumerate(inputs)]
        values: Floats = network.value_of(*parts).cpu().numpy()
        return values

    @torch.inference_mode()
    def _part(self, network: QNetwork | VNetwork, index: int, vectors: Floats) -> Tensor:
        """[..., H] of vectors [..., D]. The part of a single vector is kept."""
        if vectors.shape[-1] != self.embed.dim:
            raise CheckpointError(
                f"A vector has {vectors.shape[-1]} numbers, but Q and V were trained on {self.embed.dim} "
                f"(embeddings of {self.embed.model})."
            )
        content = np.asarray(vectors, np.float32).tobytes()
        key = network is self.q_network, index, vectors.shape, content
        part = self._parts.get(key)
        if part is None:
            rows = torch.frombuffer(bytearray(content), dtype=torch.float32).reshape(vectors.shape)
            part = network.part(index, rows.to(network.out.weight.device))
            if vectors.size == self.embed.dim:
                if len(self._parts) >= MAX_KEPT_PARTS:
                    self._parts.clear()
                self._parts[key] = part
        return part
