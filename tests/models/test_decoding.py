"""Decoding steps read the cache by plain products; they compute what the fused kernel does."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.models.decoding import CACHE, attend_in_order, with_room

TEXT, NEXT = torch.randint(0, 64, (3, 9)), torch.randint(0, 64, (3, 2, 2))  # [B, P], [steps, B, R]


@torch.inference_mode()
def _logits(groups: int, *, in_order: bool) -> list[torch.Tensor]:
    """Of three steps of two branches each after a prompt; then of one more after the first row has left."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=64, num_key_value_heads=groups, attn_implementation="sdpa", **sizes)
    model = LlamaForCausalLM(config).eval()
    if in_order:
        attend_in_order(model)
    out = model(input_ids=TEXT[:2], use_cache=True)
    cache = with_room(getattr(out, CACHE), 8) if in_order else getattr(out, CACHE)
    steps = [out.logits]
    for step, tokens in enumerate([*NEXT, NEXT[0, 1:]]):
        rows = len(tokens)
        if rows == 1:
            cache.batch_select_indices(torch.tensor([1]))
        seen = torch.cat(
            [torch.ones(2, 9, dtype=torch.bool), torch.eye(2, dtype=torch.bool).repeat(1, step + 1)], dim=1
        )
        out = model(
            input_ids=tokens,
            attention_mask=seen.expand(rows, 1, -1, -1),
            position_ids=torch.full((rows, 2), 9 + step),
            use_cache=True,
            **{CACHE: cache},
        )
        steps.append(out.logits)
    return steps


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["heads of their own", "grouped", "one group"])
def test_branches_read_the_cache_as_the_fused_kernel_does(groups: int) -> None:
    for found, right in zip(_logits(groups, in_order=True), _logits(groups, in_order=False), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
