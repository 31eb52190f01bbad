"""Induction heads laid by hand copy before any training; the drill asks for nothing else."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from experiments.pocket_models.induction import InductionConfig, drill, lay_heads
from experiments.pocket_models.sft import TokenizedExample

VOCABULARY = 2048


def copied(model: LlamaForCausalLM, rows: list[TokenizedExample]) -> float:
    """Share of the tokens to be copied that the model thinks likeliest."""
    right: list[bool] = []
    for row in rows:
        with torch.no_grad():
            likeliest = model(torch.tensor([row.tokens])).logits[0].argmax(-1).tolist()
        right += [likeliest[i - 1] == row.tokens[i] for start, end in row.replies for i in range(start, end)]
    return sum(right) / len(right)


@pytest.mark.parametrize("width", [192, 400])
def test_heads_laid_by_hand_copy_without_training(width: int) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=2,
        num_attention_heads=4,
        tie_word_embeddings=True,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )
    model = LlamaForCausalLM(config).eval()
    rows = list(drill(InductionConfig(width=width), VOCABULARY, 4, seed=0))
    assert copied(model, rows) < 0.01
    lay_heads(model)
    assert copied(model, rows) > 0.1  # of 2,048 tokens
