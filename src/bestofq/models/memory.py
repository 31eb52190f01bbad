"""How much memory a model's weights take and a device has, before any weight is read."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import torch
from transformers.utils.hub import cached_file

from bestofq.models.checkpoints import weight_files

_PARAMETERS = re.compile(r"(\d+(?:\.\d+)?)b(?![a-z])", re.I)
_PER_NAMED = 1.25  # parameters for each in the name: Qwen2.5-VL-3B has 3.75 billion with what sees


class GpuRoom(NamedTuple):
    """Bytes. `needed` is None where nothing tells the model's size."""

    device: str
    needed: int | None
    free: int  # of a GPU what is free now, of the CPU the machine's memory


def room_for(path: str, device: str = "auto") -> GpuRoom:
    """For the weights of a checkpoint, in bfloat16 on a GPU and in float32 elsewhere: by its files where it is a
    directory or lies in the hub's cache, else by its name (`3B`)."""
    target = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = target.startswith("cuda")
    free = torch.cuda.mem_get_info(target)[0] if on_gpu else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        folder = Path(cached_file(path, "config.json", local_files_only=True)).parent
        half = sum(file.stat().st_size for file in weight_files(folder))
    except OSError:
        named = _PARAMETERS.search(path.rpartition("/")[2])
        half = round(float(named[1]) * 1e9 * _PER_NAMED) * 2 if named else 0
    return GpuRoom(target, (half if on_gpu else 2 * half) or None, free)
