import pytest
import torch

from bestofq.learning.config import NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork, folded, parameter_counts

SMALL = NetworkConfig(project=16, hidden=(24, 8), dropout=0.1)


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_the_papers_sizes() -> None:
    with torch.device("meta"):
        assert parameters(QNetwork(2048)) == pytest.approx(11.19e6, rel=5e-4)
        assert parameters(VNetwork(2048)) == pytest.approx(8.04e6, rel=5e-4)


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


def test_hidden_layers_are_linear_relu_dropout() -> None:
    with torch.device("meta"):
        body = QNetwork(2048).body
    assert [type(layer).__name__ for layer in body] == ["Linear", "ReLU", "Dropout"] * 6
    assert [layer.out_features for layer in body if isinstance(layer, torch.nn.Linear)] == [
        1024,
        1024,
        512,
        256,
        128,
        64,
    ]


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
    for network in (q, folded(q)):
        torch.testing.assert_close(network(state, action, task), network(state, action, other))
        assert not torch.equal(network(state, action, task), network(state, other, task))
        parts = [network.part(index, vectors) for index, vectors in enumerate((state, action, other))]
        torch.testing.assert_close(network.value_of(*parts), q(state, action, task))
    torch.testing.assert_close(v(state, task), v(other, task))
    assert not torch.equal(v(state, task), v(state, other))


def test_folding_keeps_the_function_and_drops_parameters() -> None:
    q = QNetwork(6, SMALL).eval()
    small = folded(q)
    inputs = torch.randn(3, 50, 6)
    torch.testing.assert_close(small(*inputs), q(*inputs))
    assert small.config.project is None
    assert parameters(small) < parameters(q)
    assert folded(small) is not small


def test_the_output_is_float32_under_autocast() -> None:
    v = VNetwork(6, SMALL)
    with torch.autocast("cpu", torch.bfloat16):
        assert v(torch.randn(2, 6), torch.randn(2, 6)).dtype == torch.float32
