"""IQL's step with less to launch: its losses compiled to fewer kernels; and the step as a CUDA graph, whose kernels are
recorded once and launched together from then on. The networks are small, and a GPU would else wait for Python to launch
them one by one.

The graph follows PyTorch's pattern for whole steps (CUDA semantics, "Whole-network capture"): inputs stay in place, and
a few steps on another stream warm up before the capture. Neither was run on a GPU yet: none was at hand.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from bestofq.learning.batches import Batch

log = logging.getLogger(__name__)

_WARM_UP = 3  # steps; libraries choose their kernels in them, and Adam makes its state


class Losses(NamedTuple):
    """Of V and of Q: a loss, and the mean of what the network said."""

    v: Callable[[Batch], tuple[Tensor, Tensor]]
    q: Callable[[Batch], tuple[Tensor, Tensor]]


class Learner(Protocol):
    """What is asked of `iql.IQL`."""

    step: int
    losses: Losses

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


def compile_losses(iql: Learner, example: Batch) -> None:
    """Have `iql.losses` compiled by `torch.compile`, for batches of the shape of `example`. Weights and optimizers are
    left as they are; so are the losses where that cannot be done, and a warning says why."""
    eager = iql.losses
    # Dropout masks are drawn as without compilation: else a resumed training, compiled or not, would draw others.
    iql.losses = Losses(*(torch.compile(loss, dynamic=False, options={"fallback_random": True}) for loss in eager))
    try:
        warm_up(iql, example)
    except RuntimeError as error:  # of all that a compiler may lack, such as g++ or Triton
        iql.losses = eager
        said = " ".join(str(error).split("\n")[:2])
        log.warning("iql.compile=true has no effect, the losses could not be compiled: %s", said)


def capture_update(iql: Learner, example: Batch) -> Callable[[Batch], Tensor]:
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
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)
            for state, were in zip(states, kept, strict=True):
                for weight, some in state.items():
                    for name, tensor in some.items():
                        tensor.copy_(were[weight][name]) if weight in were else tensor.zero_()
