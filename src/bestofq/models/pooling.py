"""From a model's hidden states to one vector a text (Best-of-Q, A.3)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bestofq.core.embedding import Pooling
from bestofq.core.transitions import Floats


def hidden_states(body: Any, layer: int, **inputs: Any) -> Tensor:
    """A layer [B, T, D] of a model without its head; without keeping the other layers where it is the last (-1)."""
    if layer == -1:
        last: Tensor = body(**inputs).last_hidden_state
        return last
    chosen: Tensor = body(**inputs, output_hidden_states=True).hidden_states[layer]
    return chosen


def pool_vectors(hidden: Tensor, own: Tensor, pooling: Pooling) -> Floats:
    """One vector a row, of its own tokens, which stand together: [B, T, D], [B, T] → [B, D] float32."""
    if pooling == "last":
        last = own.int().cumsum(1).argmax(1)
        vectors = hidden[torch.arange(len(own)), last].float()
    else:
        weights = own[..., None].float()
        vectors = (hidden.float() * weights).sum(1) / weights.sum(1)
    result: Floats = vectors.cpu().numpy()
    return result


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """ids [B, T] padded on the right, where a causal model cannot see it, and where they are real [B, T]."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    return ids.to(device), (torch.arange(ids.shape[1]) < lengths).to(device)
