"""A training run that may be killed at any moment: its weights and optimizer in a folder, sharded as they are."""

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from bestofq.core.errors import CheckpointError
from bestofq.core.frozen import FrozenModel

MARK = "run.txt"
"""In the folder of a training run from its first moment: which run it is."""


def has_begun(out: Path) -> bool:
    """Whether a run has begun in this folder."""
    return (out / MARK).exists()


def claim(out: Path, data: Iterable[FrozenModel], settings: str) -> None:
    """Make `out` the folder of the run of these data and settings. CheckpointError where it is another's."""
    digest = hashlib.sha256(settings.encode())
    for noun in data:
        digest.update(noun.model_dump_json().encode())
    run, mark = digest.hexdigest()[:16], out / MARK
    if mark.exists() and (found := mark.read_text("utf-8", "replace")) != run:
        raise CheckpointError(
            f"{out} holds training run {found}, of other data or settings than this one ({run}): "
            "choose another folder, or delete it."
        )
    out.mkdir(parents=True, exist_ok=True)
    part = out / f".run-{os.getpid()}"  # in one move: the processes of a run all write it and read it
    part.write_text(run)
    part.replace(mark)


def keep(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder whole or not at all."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    write(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)


class Resumable:
    """Checkpoints `out/.training/step-N`, of which the last complete one counts; moved into place once written."""

    def __init__(self, out: Path) -> None:
        self.folder = out / ".training"

    def save(self, model: nn.Module, optimizer: Optimizer, accelerator: Any, step: int) -> None:
        """Keep what is trained after `step` steps, by all processes together."""
        part = self.folder / f".step-{step}.part"
        if accelerator.is_main_process:
            shutil.rmtree(part, ignore_errors=True)
        accelerator.wait_for_everyone()
        with _import_checkpoint_modules() as (files, states, options):
            weights, state = states.get_state_dict(model, optimizer, options=options)
            files.save({"model": weights, "optimizer": state}, checkpoint_id=part)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            before = self._steps()
            part.replace(self.folder / f"step-{step}")
            for old in before:
                shutil.rmtree(self.folder / f"step-{old}")

    def load(self, model: nn.Module, optimizer: Optimizer, accelerator: Any) -> int:
        """Put back the last checkpoint; returns its step, 0 where there is none."""
        accelerator.wait_for_everyone()
        step = max(self._steps(), default=0)
        if step:
            with _import_checkpoint_modules() as (files, states, options):
                weights, state = states.get_state_dict(model, optimizer, options=options)
                both = {"model": weights, "optimizer": state}
                files.load(both, checkpoint_id=self.folder / f"step-{step}")
                states.set_state_dict(
                    model,
                    optimizer,
                    model_state_dict=both["model"],
                    optim_state_dict=both["optimizer"],
                    options=options,
                )
        return step

    def clear(self, accelerator: Any) -> None:
        """The run is over and its model saved."""
        if accelerator.is_main_process:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[int]:
        return [int(path.name.removeprefix("step-")) for path in self.folder.glob("step-*")]


@contextmanager
def _import_checkpoint_modules() -> Iterator[tuple[Any, Any, Any]]:
    """PyTorch's modules for checkpoints, slow to import, and what is kept; without their warning of one process."""
    files, states = (import_module(f"torch.distributed.{name}") for name in ("checkpoint", "checkpoint.state_dict"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized", UserWarning)
        yield files, states, states.StateDictOptions(ignore_frozen_params=True, strict=False)
