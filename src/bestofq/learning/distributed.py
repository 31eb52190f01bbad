"""One process or many: the device of this process, and the averages over all of them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed

Shared = TypeVar("Shared")


def choose_device(name: str) -> torch.device:
    """`cuda` is this process's GPU (torchrun's LOCAL_RANK); `auto` is that GPU if there is one, else the CPU."""
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu" if name == "auto" else name)


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware; elsewhere they are slower than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(device.type == "cpu" and (capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")))


def is_first_process() -> bool:
    """Whether this process speaks and writes: it is the first that the launcher began."""
    return int(os.environ.get("RANK", "0")) == 0


def _is_initialized() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def group_left() -> Iterator[None]:
    """After the block, leave the group of processes that a training made in it."""
    before = _is_initialized()
    try:
        yield
    finally:
        if not before and _is_initialized():
            distributed.destroy_process_group()


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together. Each takes every `size`-th row of the global batch, from `rank` on."""

    rank: int = 0
    size: int = 1
    patient: distributed.ProcessGroup | None = None
    """The same processes over gloo, which wait for days: `share` takes as long as the first process reads."""

    def share(self, make: Callable[[], Shared]) -> Shared | None:
        """Return in all processes what `make` gives in the first; None if it raises. Tensors must be on the CPU."""
        made: list[Shared | None] = [None]
        try:
            if self.rank == 0:
                made = [make()]
        finally:
            if self.size > 1:
                distributed.broadcast_object_list(made, src=0, group=self.patient)
        return made[0]

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, in one exchange."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        flat /= self.size
        means = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean.view_as(tensor))


SOLO = ProcessGroup()
_CURRENT: ContextVar[ProcessGroup | None] = ContextVar("group of processes", default=None)


@contextmanager
def process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Yield the group of this process: that of the block around this one, or one already initialized. Else it is
    torchrun's for the time of the block (NCCL on GPUs, gloo on CPUs), or this process alone."""
    if around := _CURRENT.get():
        yield around
    elif _is_initialized():
        yield ProcessGroup(distributed.get_rank(), distributed.get_world_size())
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            patient = distributed.new_group(backend="gloo", timeout=timedelta(days=7))
            group = ProcessGroup(distributed.get_rank(), distributed.get_world_size(), patient)
            _CURRENT.set(group)
            yield group
        finally:
            _CURRENT.set(None)
            distributed.destroy_process_group()
    else:
        yield SOLO
