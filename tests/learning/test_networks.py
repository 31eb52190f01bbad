from typing import Literal

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedSpec
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork, fold_projections, parameter_counts
from bestofq.learning.value import ValueModel

SMALL = NetworkConfig(project=16, hidden=(24, 8), dropout=0.1)


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_the_papers_sizes() -> None:
    with torch.device("meta"):
        assert parameters(QNetwork(2048)) == pytest.approx(11.19e6, rel=5e-4)
        assert parameters(VNetwork(2048)) == pytest.approx(8.04e6, rel=5e-4)


def test_the_defaults_are_appendix_b() -> None:
    numbers = {
        "expectile": 0.7,
        "discount": 0.99,
        "target_update_every": 100,
        "lr_q": 3e-4,
        "lr_v": 3e-4,
        "weight_decay": 1e-4,
        "clip_norm": 1.0,
        "batch_size": 128,
    }
    assert {name: getattr(IQLConfig(), name) for name in numbers} == numbers
    for dim in (256, 2048):
        shape = IQLConfig(network=NetworkConfig(project=1024, hidden="paper")).at(dim).network
        assert (shape.project, shape.hidden, shape.scaling) == (1024, (1024, 1024, 512, 256, 128, 64), None)


def test_auto_is_the_papers_shape_scaled_to_the_vectors_width() -> None:
    paper = (1024, 1024, 512, 256, 128, 64)
    for dim, project, hidden in (
        (256, None, (128, 128, 64, 32, 16, 16)),
        (1024, None, (512, 512, 256, 128, 64, 32)),
        (2048, 1024, paper),
        (3584, 1024, paper),
    ):
        shape = NetworkConfig().at(dim)
        assert (shape.project, shape.hidden) == (project, hidden)
        assert NetworkConfig(hidden="paper").at(dim).hidden == paper
        with torch.device("meta"):
            networks = QNetwork(dim), VNetwork(dim)
        assert parameter_counts(dim, NetworkConfig()) == tuple(map(parameters, networks))
    assert SMALL.at(256) == SMALL


def test_candidates_broadcast_against_their_state() -> None:
    q = QNetwork(6, SMALL).eval()
    state, action, task = torch.randn(4, 6), torch.randn(4, 3, 6), torch.randn(4, 6)
    together = q(state[:, None], action, task[:, None])
    assert together.shape == (4, 3)
    torch.testing.assert_close(together[:, 2], q(state, action[:, 2], task))


def test_an_input_that_is_not_seen_changes_nothing_in_training_or_at_inference() -> None:
    config = SMALL.model_copy(update={"q_without": ("task",), "v_without": ("state",)})
    q, v = QNetwork(6, config).eval(), VNetwork(6, config).eval()
    state, action, task, other = torch.randn(4, 5, 6)
    for network in (q, fold_projections(q)):
        torch.testing.assert_close(network(state, action, task), network(state, action, other))
        assert not torch.equal(network(state, action, task), network(state, other, task))
        torch.testing.assert_close(network(state, action, other), q(state, action, task))
    torch.testing.assert_close(v(state, task), v(other, task))
    assert not torch.equal(v(state, task), v(state, other))


def test_folding_keeps_the_function_and_drops_parameters() -> None:
    q = QNetwork(6, SMALL).eval()
    small = fold_projections(q)
    inputs = torch.randn(3, 50, 6)
    torch.testing.assert_close(small(*inputs), q(*inputs))
    assert small.config.project is None
    assert parameters(small) < parameters(q)
    assert fold_projections(small) is not small


VECTORS = torch.tensor([[1.0, 10.0, 5.0], [3.0, 14.0, 5.0], [5.0, 18.0, 5.0], [3.0, 14.0, 5.0]])


def test_standardizing_gives_each_number_mean_0_and_variance_1() -> None:
    q = QNetwork(3, SMALL.model_copy(update={"scaling": "standardize"}))
    q.fit_scale(VECTORS, VECTORS, VECTORS)
    sd = 2**0.5
    expected = torch.tensor([[-sd, -sd, 0], [0, 0, 0], [sd, sd, 0], [0, 0, 0]])  # by hand: (x - 3) / √2, (x - 14) / √8
    torch.testing.assert_close(q.scale[0](VECTORS), expected, atol=2e-3, rtol=0)


def test_whitening_leaves_no_direction_wider_than_another_and_takes_the_mean_away() -> None:
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(500, 6, generator=generator) @ torch.randn(6, 6, generator=generator) + 7
    v = VNetwork(6, SMALL.model_copy(update={"scaling": "whiten"}))
    v.fit_scale(mixed, mixed)
    white = v.scale[1](mixed)
    torch.testing.assert_close(white.mean(0), torch.zeros(6), atol=1e-3, rtol=0)
    torch.testing.assert_close(white.T @ white / 500, torch.eye(6), atol=2e-2, rtol=0)


def test_a_direction_that_never_varies_is_not_blown_up() -> None:
    v = VNetwork(3, SMALL.model_copy(update={"scaling": "whiten"}))
    v.fit_scale(VECTORS, torch.ones(4, 3))
    assert v.scale[0](VECTORS + torch.tensor([0, 0, 1e-3])).abs().max() < 2
    assert not v.scale[1](torch.ones(1, 3)).any()


def test_whitening_by_few_vectors_does_not_inflate_what_they_lack() -> None:
    dim, spread = 256, torch.arange(1, 257) ** -0.5
    seen, unseen = (
        torch.randn(count, dim, generator=torch.Generator().manual_seed(count)) * spread for count in (160, 900)
    )
    v = VNetwork(dim, SMALL.model_copy(update={"scaling": "whiten"}))
    v.fit_scale(seen, seen)
    squares = [v.scale[0](vectors).square().mean() for vectors in (seen, unseen)]
    assert squares[1] < 4 * squares[0]  # without shrinking: 60 times


@pytest.mark.parametrize("project", [None, 16])
@pytest.mark.parametrize("without", [(), ("task",)])
def test_scaling_is_folded_away(project: int | None, without: tuple[Literal["task"], ...]) -> None:
    config = SMALL.model_copy(update={"scaling": "whiten", "project": project, "q_without": without})
    q = QNetwork(3, config)
    q.fit_scale(VECTORS, VECTORS + 1, VECTORS)
    plain = fold_projections(q)
    assert plain.config.scaling is None
    assert not any(name.startswith(("scale", "project")) for name, _ in plain.named_parameters())
    q.eval(), plain.eval()
    torch.testing.assert_close(plain(VECTORS, VECTORS, VECTORS), q(VECTORS, VECTORS, VECTORS))


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [SMALL, NetworkConfig(project=None, hidden=(8,))], ids=["projected", "as they are"])
@torch.no_grad()
def test_the_value_is_the_network_s(shape: NetworkConfig) -> None:
    q, v = QNetwork(6, shape).eval(), VNetwork(6, shape).eval()
    model = ValueModel(q, v, embed=EmbedSpec(model="m", revision="1", dim=6), train_n=3)
    for rows in (1, 5):
        state, action, task = drawn(rows, 6), drawn(rows, 3, 6, seed=1), drawn(rows, 6, seed=2)
        s, a, t = map(torch.from_numpy, (state, action, task))
        np.testing.assert_allclose(model.q(state, action, task), q(s[:, None], a, t[:, None]), atol=1e-6)
        np.testing.assert_allclose(model.q(state, action[:, 0], task), q(s, a[:, 0], t), atol=1e-6)
        np.testing.assert_allclose(model.v(state, task), v(s, t), atol=1e-6)
