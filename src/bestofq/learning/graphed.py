"""IQL's step as a CUDA graph: its kernels are recorded once and launched together from then on. The networks are small,
and a GPU would else wait for Python to launch them one by one.

By PyTorch's pattern for whole steps (CUDA semantics, "Whole-network capture"): inputs that stay in place, a few steps
on another stream to warm up, then the capture. Neither run nor measured on a GPU yet: none was at hand.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from bestofq.learning.batches import Batch

_WARM_UP = 3  # steps; libraries choose their kernels in them, and Adam makes its state


class Learner(Protocol):
    """What is asked of `iql.IQL`."""

    step: int

    @property
    def device(self) -> torch.device: ...

    @property
    def q(self) -> nn.Module: ...

    @property
    def v(self) -> nn.Module: ...

    @property
    def adam_q(self) -> torch.optim.Optimizer: ...

    @property
    def adam_v(self) -> torch.optim.Optimizer: ...

    def begin_step(self) -> None: ...

    def descend(self, batch: Batch) -> Tensor: ...


def graphed(iql: Learner, example: Batch) -> Callable[[Batch], Tensor]:
    """`iql.update` for batches of the shape of `example`, on one GPU. The learner is left as it is; its weights and
    its optimizers' state stay in place from then on."""
    inputs = Batch(*(part.clone() for part in example))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(iql.device):
        warm_up(iql, inputs)
        with torch.cuda.graph(graph):
            means = iql.descend(inputs)

    def update(batch: Batch) -> Tensor:
        for part, given in zip(inputs, batch, strict=True):
            part.copy_(given)
        iql.begin_step()
        graph.replay()  # draws its dropout masks from the seed that `begin_step` has set
        iql.step += 1
        return means.clone()

    return update


def warm_up(iql: Learner, inputs: Batch) -> None:
    """Steps that leave no trace: weights and optimizers are afterwards as before."""
    with _put_back(iql):
        if iql.device.type != "cuda":
            for _ in range(_WARM_UP):
                iql.descend(inputs)
            return
        aside = torch.cuda.Stream(iql.device)  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream(iql.device)
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP):
                iql.descend(inputs)
        current.wait_stream(aside)


@contextmanager
def _put_back(iql: Learner) -> Iterator[None]:
    """Gives every tensor that a step changes its old numbers again, in place; a state that was not there is zeros."""
    weights: list[Tensor] = [*iql.q.parameters(), *iql.v.parameters()]
    states = [adam.state for adam in (iql.adam_q, iql.adam_v)]
    before = [weight.detach().clone() for weight in weights]
    kept = [{weight: {k: t.clone() for k, t in some.items()} for weight, some in state.items()} for state in states]
    yield
    with torch.no_grad():
        for weight, old in zip(weights, before, strict=True):
            weight.copy_(old)
        for state, were in zip(states, kept, strict=True):
            for weight, some in state.items():
                for name, tensor in some.items():
                    tensor.copy_(were[weight][name]) if weight in were else tensor.zero_()
