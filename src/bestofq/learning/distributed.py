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
    """`auto` is this process's GPU (torchrun's LOCAL_RANK) where there is one, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware; elsewhere they are slower than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(device.type == "cpu" and (capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")))


def is_first_process() -> bool:
    """Whether this process is the one that speaks and writes: of those that a launcher began, the first."""
    return int(os.environ.get("RANK", "0")) == 0


def _is_initialized() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def group_left() -> Iterator[None]:
    """Leave, after the block, the group of processes that training made within: a launched process trains once."""
    before = _is_initialized()
    try:
        yield
    finally:
        if not before and _is_initialized():
            distributed.destroy_process_group()


@dataclass(frozen=True)
class Group:
    """The processes that train together. Each takes every `size`-th row of the global batch, from `rank` on."""

    rank: int = 0
    size: int = 1
    patient: distributed.ProcessGroup | None = None
    """The same processes over gloo, which wait for days: `share` takes as long as the first process reads."""

    def share(self, make: Callable[[], Shared]) -> Shared | None:
        """What `make` gives in the first process, in all of them; None where it raises. Tensors on the CPU."""
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


SOLO = Group()
_CURRENT: ContextVar[Group | None] = ContextVar("group of processes", default=None)


@contextmanager
def process_group(device: torch.device) -> Iterator[Group]:
    """The group this process belongs to: that of the block around this one, or one already initialized, else torchrun's
    (NCCL on GPUs, gloo on CPUs) for the time of the block, else this process alone."""
    if around := _CURRENT.get():
        yield around
    elif _is_initialized():
        yield Group(distributed.get_rank(), distributed.get_world_size())
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            patient = distributed.new_group(backend="gloo", timeout=timedelta(days=7))
            group = Group(distributed.get_rank(), distributed.get_world_size(), patient)
            _CURRENT.set(group)
            yield group
        finally:
            _CURRENT.set(None)
            distributed.destroy_process_group()
    else:
        yield SOLO
