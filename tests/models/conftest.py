"""A tiny checkpoint of the pocket model's architecture, random weights, its own tokenizer."""

from pathlib import Path

import pytest
import torch
from tiny_llama import save_llama

from bestofq.models.local import LocalModel
from experiments.pocket_models.tokenizer import train_tokenizer

WORDS = "goal: i need a red wireless mouse under 40 dollars page: Buy Now [1] click [2] want back next search\n"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = train_tokenizer([WORDS] * 4, 400)
    torch.manual_seed(3)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    save_llama(folder, tokenizer, max_position_embeddings=256, initializer_range=0.3, **shape)
    return folder


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> LocalModel:
    return LocalModel.load(checkpoint, device="cpu", precision="float32")
