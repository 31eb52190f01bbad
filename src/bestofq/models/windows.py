"""Attention of Qwen's picture encoders with all windows of a length at once.

Qwen2.5-VL reads a picture in windows of at most 8 × 8 patches (arXiv 2502.13923, 2.1.1): a screenshot has some 80, and
28 of the 32 layers attend within them. transformers does one window after the other, so that a GPU waits for Python to
launch some 2,000 small kernels a picture. Not measured on a GPU yet (`benchmarks/embedder.py`).
"""

from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

NAME = "flash_by_length"  # transformers tells the windows' bounds to what is called flash


def at_once(encoder: Any) -> None:
    """Have a picture encoder attend so."""
    transformers.AttentionInterface.register(NAME, by_length)
    encoder.config._attn_implementation = NAME  # what would set it looks for a package by that name


def by_length(
    _module: object,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float,
    cu_seq_lens_q: Tensor,
    **_: object,
) -> tuple[Tensor, None]:
    """[1, H, T, D] three times → [1, T, H, D]. T: the windows in a row, with bounds `cu_seq_lens_q` [W + 1]."""
    starts, lengths = cu_seq_lens_q[:-1], cu_seq_lens_q.diff()
    result = torch.empty_like(query)
    for length in sorted({*lengths.tolist()}):
        rows = starts[lengths == length][:, None] + torch.arange(length, device=starts.device)  # [N, L]
        q, k, v = (whole[0, :, rows].transpose(0, 1) for whole in (query, key, value))  # [N, H, L, D]
        result[0, :, rows] = scaled_dot_product_attention(q, k, v, scale=scaling).transpose(0, 1)
    return result.transpose(1, 2), None
