"""The device of this process, and its place among those of a launcher."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed


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


@contextmanager
def group_left() -> Iterator[None]:
    """After the block, leave the group of processes that a training made in it."""
    before = distributed.is_initialized()
    try:
        yield
    finally:
        if not before and distributed.is_initialized():
            distributed.destroy_process_group()
