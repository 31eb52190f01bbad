from collections.abc import Iterator

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedSpec
from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig, NetworkConfig


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """These networks are too small to share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data() -> Transitions:
    """300 random transitions over 40 vectors of 8 numbers."""
    rng = np.random.default_rng(1)
    rows = rng.integers(40, size=(4, 300))
    terminal = rng.random(300) < 0.2
    return Transitions(
        vectors=rng.standard_normal((40, 8)).astype(np.float32),
        state=rows[0],
        action=rows[1],
        task=rows[2],
        next_state=rows[3],
        reward=(terminal & (rng.random(300) < 0.5)).astype(np.float32),
        terminal=terminal,
    )


@pytest.fixture
def config() -> IQLConfig:
    network = NetworkConfig(project=16, hidden=(32, 16), dropout=0.1)
    training = {"steps": 200, "batch_size": 32, "target_update_every": 30, "log_every": 50}
    return IQLConfig(**training, network=network, device="cpu", precision="fp32")


@pytest.fixture
def embed() -> EmbedSpec:
    return EmbedSpec(model="pocket", revision="abc", dim=8)
