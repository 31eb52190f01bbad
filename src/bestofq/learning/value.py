"""The learned Q and V for inference: numpy in, numpy out."""

import torch

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.gate import Gate
from bestofq.core.transitions import Floats
from bestofq.learning.memory import Memory
from bestofq.learning.networks import QNetwork, VNetwork, fold_projections


class ValueModel:
    """Q(s, a) and V(s) in evaluation mode."""

    def __init__(
        self,
        q: QNetwork,
        v: VNetwork,
        *,
        embed: EmbedSpec,  # of the vectors that they read
        train_n: int,  # N of their training (Table 4)
        checkpoint: str | None = None,  # their file's name, which has its hash; None: unknown
        discount: float | None = None,  # of their training; None: unknown
        memory: Memory | None = None,  # of the same episodes; None: from before it was kept
        gate: Gate | None = None,  # of a decision by these values; None: none was calibrated
    ) -> None:
        self.q_network, self.v_network = fold_projections(q).eval(), fold_projections(v).eval()
        self.embed, self.train_n = embed, train_n
        self.checkpoint, self.discount, self.memory, self.gate = checkpoint, discount, memory, gate

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        """state [B, D], action [B, N, D], task [B, D] -> [B, N]; or action [B, D] -> [B]."""
        if action.ndim == 3:
            state, task = state[:, None], task[:, None]
        return self._value(self.q_network, state, action, task)

    def v(self, state: Floats, task: Floats) -> Floats:
        """state [B, D], task [B, D] -> [B]."""
        return self._value(self.v_network, state, task)

    @torch.inference_mode()
    def _value(self, network: QNetwork | VNetwork, *inputs: Floats) -> Floats:
        if wrong := [vectors.shape[-1] for vectors in inputs if vectors.shape[-1] != self.embed.dim]:
            raise CheckpointError(
                f"A vector has {wrong[0]} numbers, but Q and V were trained on {self.embed.dim} "
                f"(embeddings of {self.embed.model})."
            )
        device = network.out.weight.device
        rows = [torch.tensor(vectors, dtype=torch.float32, device=device) for vectors in inputs]
        values: Floats = network(*rows).cpu().numpy()
        return values
