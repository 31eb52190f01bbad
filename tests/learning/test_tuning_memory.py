"""The memory of a tuning on paper, against arithmetic by hand for LLaMA 3's shapes."""

from pathlib import Path

import pytest
from transformers import LlamaConfig

from benchmarks.tuning_memory import tuning_memory
from bestofq.learning.config import DPOConfig

WORDS = 128256


@pytest.mark.parametrize(
    ("wide", "deep", "inner"),
    [
        pytest.param(4096, 32, 14336, id="8B"),
        pytest.param(8192, 80, 28672, id="70B", marks=pytest.mark.slow),
    ],
)
def test_weights_and_adapters_are_counted_and_shared_out(wide: int, deep: int, inner: int, tmp_path: Path) -> None:
    shape = {"hidden_size": wide, "num_hidden_layers": deep, "intermediate_size": inner, "vocab_size": WORDS}
    LlamaConfig(num_attention_heads=wide // 128, num_key_value_heads=8, **shape).save_pretrained(tmp_path)
    block = 2 * wide * wide + 2 * wide * 1024 + 3 * wide * inner + 2 * wide
    whole = deep * block + 2 * WORDS * wide + wide
    adapters = 16 * deep * (2 * (wide + wide) + 2 * (wide + 1024) + 3 * (wide + inner))
    lora = DPOConfig(lora=16, gradient_checkpointing=True)
    alone, shared = (tuning_memory(str(tmp_path), lora, gpus) for gpus in (1, 8))
    assert alone.weights == 2 * whole == alone.stored == 8 * shared.weights
    assert alone.trained == 16 * adapters == 8 * shared.trained
    assert (alone.gathered, shared.gathered) == (0, 2 * (2 * block + 2 * WORDS * wide + wide))
    assert alone.activations == shared.activations
    every = tuning_memory(str(tmp_path), DPOConfig(gradient_checkpointing=True), 8)
    assert (every.weights, every.trained) == (0, 2 * whole)
    assert tuning_memory(str(tmp_path), DPOConfig(), 8).activations > every.activations
