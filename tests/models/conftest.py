"""A tiny checkpoint of the pocket model's architecture, random weights, its own tokenizer."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.models.local import LocalModel
from bestofq.recipes.pocket.tokenizer import train_tokenizer

WORDS = "goal: i need a red wireless mouse under 40 dollars page: Buy Now [1] click [2] want back next search\n"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = train_tokenizer([WORDS] * 4, 400)
    torch.manual_seed(3)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            initializer_range=0.3,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> LocalModel:
    return LocalModel.load(checkpoint, device="cpu", precision="float32")
