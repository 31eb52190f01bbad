"""A tuning that may be killed at any moment. Its checkpoints are `out/.training/step-N`; the last one counts."""

import hashlib
import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from bestofq.core.errors import CheckpointError
from bestofq.core.files import write_whole
from bestofq.core.frozen import FrozenModel

MARK = "run.txt"  # in the folder of a training run from its first moment: which run it is


def has_begun(out: Path) -> bool:
    return (out / MARK).exists()


def claim(out: Path, data: Iterable[FrozenModel], settings: str) -> None:
    """Make `out` the folder of the run with these data and settings. CheckpointError if another run owns it."""
    digest = hashlib.sha256(settings.encode())
    for item in data:
        digest.update(item.model_dump_json().encode())
    run, mark = digest.hexdigest()[:16], out / MARK
    if mark.exists() and (owner := mark.read_text("utf-8", "replace")) != run:
        raise CheckpointError(
            f"{out} holds training run {owner}, of other data or settings than this one ({run}): "
            "choose another folder, or delete it."
        )
    write_whole(mark, run, sync=False)  # in one move: all processes of a run write it and read it


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    write(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)


def save_step(out: Path, model: nn.Module, optimizer: Optimizer, accelerator: Any, step: int) -> None:
    """Keep what is trained after `step` steps. All processes call this, and each writes its shards."""
    from torch.distributed.checkpoint.state_dict_saver import save  # slow to import

    folder = out / ".training"
    part = folder / f".step-{step}.part"
    if accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    accelerator.wait_for_everyone()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _ALONE, UserWarning)
        save(_state_of(model, optimizer), checkpoint_id=part)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        before = _steps(folder)
        part.replace(folder / f"step-{step}")
        for old in before:
            shutil.rmtree(folder / f"step-{old}")


def load_step(out: Path, model: nn.Module, optimizer: Optimizer, accelerator: Any) -> int:
    """Put back the last checkpoint; returns its step, 0 if there is none."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict
    from torch.distributed.checkpoint.state_dict_loader import load

    folder = out / ".training"
    accelerator.wait_for_everyone()
    step = max(_steps(folder), default=0)
    if step:
        state = _state_of(model, optimizer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _ALONE, UserWarning)
            load(state, checkpoint_id=folder / f"step-{step}")
        options = StateDictOptions(ignore_frozen_params=True, strict=False)
        weights, adam = state["model"], state["optimizer"]
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=adam, options=options)
    return step


def clear_steps(out: Path) -> None:
    shutil.rmtree(out / ".training", ignore_errors=True)


_ALONE = "torch.distributed is disabled, unavailable or uninitialized"  # PyTorch's warning of a single process


def _state_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(ignore_frozen_params=True, strict=False)
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer, options=options), strict=True))


def _steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in folder.glob("step-*")]
