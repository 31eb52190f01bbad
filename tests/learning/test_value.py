"""Q and V for inference: the parts of the first layer add up to the network's own value."""

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedSpec
from bestofq.learning.config import NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel

SHAPES = [NetworkConfig(project=16, hidden=(24, 8)), NetworkConfig(project=None, hidden=(8,))]


@pytest.fixture(params=SHAPES, ids=["projected", "as they are"])
def networks(request: pytest.FixtureRequest) -> tuple[QNetwork, VNetwork]:
    torch.manual_seed(0)
    return QNetwork(6, request.param).eval(), VNetwork(6, request.param).eval()


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@torch.no_grad()
def test_the_value_is_the_network_s(networks: tuple[QNetwork, VNetwork]) -> None:
    q, v = networks
    model = ValueModel(q, v, embed=EmbedSpec(model="m", revision="1", dim=6), train_n=3)
    for rows in (1, 5):
        state, action, task = drawn(rows, 6), drawn(rows, 3, 6, seed=1), drawn(rows, 6, seed=2)
        s, a, t = map(torch.from_numpy, (state, action, task))
        for _ in range(2):  # the second time from what is kept
            np.testing.assert_allclose(model.q(state, action, task), q(s[:, None], a, t[:, None]), atol=1e-6)
            np.testing.assert_allclose(model.q(state, action[:, 0], task), q(s, a[:, 0], t), atol=1e-6)
            np.testing.assert_allclose(model.v(state, task), v(s, t), atol=1e-6)


def test_preparing_changes_no_value(networks: tuple[QNetwork, VNetwork]) -> None:
    fresh, prepared = (
        ValueModel(*networks, embed=EmbedSpec(model="m", revision="1", dim=6), train_n=3) for _ in range(2)
    )
    action, task = drawn(1, 3, 6, seed=1), drawn(1, 6, seed=2)
    for seed in range(3):
        state = drawn(1, 6, seed=seed)
        prepared.prepare(state, task)
        np.testing.assert_array_equal(prepared.q(state, action, task), fresh.q(state, action, task))
        np.testing.assert_array_equal(prepared.v(state, task), fresh.v(state, task))
