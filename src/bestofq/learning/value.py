"""The learned Q and V for inference: numpy in, numpy out."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.transitions import Floats
from bestofq.learning.networks import QNetwork, VNetwork, folded


class ValueModel:
    """Q(s, a) and V(s) in evaluation mode, with the EmbedSpec of the vectors they read and the number N of candidates
    that the training episodes chose among (Table 4)."""

    def __init__(self, q: QNetwork, v: VNetwork, *, embed: EmbedSpec, train_n: int, step: int = 0) -> None:
        if q.dim != embed.dim or v.dim != embed.dim:
            raise CheckpointError(
                f"Q reads vectors of {q.dim} numbers and V of {v.dim}, the EmbedSpec says {embed.dim}."
            )
        self.q_network, self.v_network = folded(q).eval(), folded(v).eval()
        self.embed, self.train_n, self.step = embed, train_n, step

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        """state [B, D], action [B, N, D], task [B, D] -> [B, N]; or action [B, D] -> [B]."""
        if action.ndim == 3:
            state, task = state[:, None], task[:, None]
        return self._run(self.q_network, state, action, task)

    def v(self, state: Floats, task: Floats) -> Floats:
        """state [B, D], task [B, D] -> [B]."""
        return self._run(self.v_network, state, task)

    @torch.inference_mode()
    def _run(self, network: QNetwork | VNetwork, *inputs: Floats) -> Floats:
        for vectors in inputs:
            if vectors.shape[-1] != self.embed.dim:
                raise CheckpointError(
                    f"A vector has {vectors.shape[-1]} numbers, but Q and V were trained on {self.embed.dim} "
                    f"(embeddings of {self.embed.model})."
                )
        weight = network.out.weight
        tensors = [torch.tensor(np.asarray(vectors, np.float32), device=weight.device) for vectors in inputs]
        values: Tensor = network(*tensors)
        result: np.ndarray[Any, np.dtype[np.float32]] = values.cpu().numpy()
        return result
