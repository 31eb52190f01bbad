"""A step as a CUDA graph, and one with compiled losses, learns what a step launched kernel by kernel learns."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bestofq.core.transitions import Transitions
from bestofq.learning.batches import Batch, Batches
from bestofq.learning.checkpoint import put_training_tensors, training_tensors
from bestofq.learning.config import IQLConfig
from bestofq.learning.graphed import compile_losses, warm_up
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


def compile_by(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    """The default one takes a minute of a compiler: it is run where there is a GPU."""
    compiled: Callable[..., Any] = torch.compile
    monkeypatch.setattr(torch, "compile", lambda loss, **_: compiled(loss, backend=backend, fullgraph=True))


@pytest.mark.slow
def test_compiled_losses_are_those_of_eager_steps_and_a_resume_stays_exact(
    data: Transitions, config: IQLConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_by(monkeypatch, "aot_eager")
    kept: list[dict[str, torch.Tensor]] = []
    rows: dict[bool, list[IQLRow]] = {True: [], False: []}

    def keep(iql: IQL) -> None:
        if iql.step == 35:
            kept.append({name: tensor.clone() for name, tensor in training_tensors(iql).items()})

    trained = {}
    for compiled, found in rows.items():
        given = config.model_copy(update={"compile": compiled, "steps": 60, "log_every": 10})
        trained[compiled] = train_iql(data, given, on_row=found.append, on_step=keep)
    for one, eager in zip(rows[True], rows[False], strict=True):
        assert one.v_loss == pytest.approx(eager.v_loss, rel=1e-3)
        assert one.q_loss == pytest.approx(eager.q_loss, rel=1e-3)
    begun = IQL(data.dim, given)
    begun.step = 35
    put_training_tensors(begun, kept[0])
    assert same(train_iql(data, given.model_copy(update={"compile": True}), resume=begun), trained[True])
    assert begun.losses.v != begun._v_loss  # they were compiled


def test_losses_that_cannot_be_compiled_stay_as_they_are_with_a_word(
    data: Transitions, config: IQLConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second alone fails: the learner had been changed by the first."""
    calls = 0

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("no g++")
        return graph

    compile_by(monkeypatch, backend)
    iql, untouched = IQL(data.dim, config), IQL(data.dim, config)
    eager = iql.losses
    batches = Batches(data, batch_size=32, seed=0, device=iql.device)
    compile_losses(iql, batches[0])
    assert iql.losses is eager
    assert "iql.compile" in caplog.text
    assert "no g++" in caplog.text
    for _ in range(3):
        assert torch.equal(iql.update(batches[iql.step]), untouched.update(batches[untouched.step]))
    assert same(iql, untouched)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_graph_learns_what_eager_steps_learn(
    data: Transitions, config: IQLConfig, precision: str, compiled: bool
) -> None:
    rows: dict[bool, list[IQLRow]] = {True: [], False: []}
    for graph, found in rows.items():
        given = {"device": "cuda", "cuda_graph": graph, "compile": graph and compiled, "precision": precision}
        train_iql(data, config.model_copy(update=given), on_row=found.append)
    for graphed, eager in zip(rows[True], rows[False], strict=True):
        # in bfloat16 a fused kernel rounds less often: by 2e-6 of losses of 1e-3 and more
        assert graphed.v_loss == pytest.approx(eager.v_loss, rel=1e-3, abs=1e-5)
        assert graphed.q_loss == pytest.approx(eager.q_loss, rel=1e-3, abs=1e-5)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("compiled", [False, True])
def test_a_resumed_graph_is_equal_bit_for_bit(data: Transitions, config: IQLConfig, compiled: bool) -> None:
    config = config.model_copy(update={"device": "cuda", "compile": compiled})
    kept: list[dict[str, torch.Tensor]] = []
    through = train_iql(
        data, config, on_step=lambda iql: kept.append(training_tensors(iql)) if iql.step == 77 else None
    )
    begun = IQL(data.dim, config)
    begun.step = 77
    put_training_tensors(begun, kept[0])
    assert same(train_iql(data, config, resume=begun), through)
