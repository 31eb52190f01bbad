"""A step as a CUDA graph learns what a step launched kernel by kernel learns."""

import pytest
import torch

from bestofq.core.transitions import Transitions
from bestofq.learning.batches import Batch, Batches
from bestofq.learning.checkpoint import put_training_tensors, training_tensors
from bestofq.learning.config import IQLConfig
from bestofq.learning.graphed import warm_up
from bestofq.learning.iql import IQL, IQLRow, train_iql

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def same(one: IQL, other: IQL) -> bool:
    first, second = training_tensors(one), training_tensors(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("done", [0, 35])
def test_what_is_captured_is_the_step_and_warming_up_leaves_no_trace(
    data: Transitions, config: IQLConfig, done: int
) -> None:
    """By its parts on a CPU: warmed up, on inputs that stay in place, against `update`; fresh and in mid-course."""
    eager, static = IQL(data.dim, config), IQL(data.dim, config)
    batches = Batches(data, batch_size=32, seed=0, device=eager.device)
    for iql in (eager, static):
        while iql.step < done:
            iql.update(batches[iql.step])
    inputs = Batch(*(part.clone() for part in batches[0]))
    places = [weight.data_ptr() for weight in static.q.parameters()]
    warm_up(static, inputs)
    for _ in range(5):
        for part, given in zip(inputs, batches[static.step], strict=True):
            part.copy_(given)
        static.begin_step()
        means = static.descend(inputs)
        static.step += 1
        assert torch.equal(means, eager.update(batches[eager.step]))
    assert same(eager, static)
    assert [weight.data_ptr() for weight in static.q.parameters()] == places


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_graph_learns_what_eager_steps_learn(data: Transitions, config: IQLConfig, precision: str) -> None:
    rows: dict[bool, list[IQLRow]] = {True: [], False: []}
    for graph, found in rows.items():
        given = {"device": "cuda", "cuda_graph": graph, "precision": precision}
        train_iql(data, config.model_copy(update=given), on_row=found.append)
    for graphed, eager in zip(rows[True], rows[False], strict=True):
        assert graphed.v_loss == pytest.approx(eager.v_loss, rel=1e-3)
        assert graphed.q_loss == pytest.approx(eager.q_loss, rel=1e-3)


@pytest.mark.gpu
@GPU
def test_a_resumed_graph_is_equal_bit_for_bit(data: Transitions, config: IQLConfig) -> None:
    config = config.model_copy(update={"device": "cuda"})
    kept: list[dict[str, torch.Tensor]] = []
    through = train_iql(
        data, config, on_step=lambda iql: kept.append(training_tensors(iql)) if iql.step == 77 else None
    )
    begun = IQL(data.dim, config)
    begun.step = 77
    put_training_tensors(begun, kept[0])
    assert same(train_iql(data, config, resume=begun), through)
