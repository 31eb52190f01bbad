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
from bestofq.core.noun import Noun


def fingerprint(data: Iterable[Noun], settings: str) -> str:
    """16 hex digits over all that a run depends on, but the weights it begins with."""
    digest = hashlib.sha256(settings.encode())
    for noun in data:
        digest.update(noun.model_dump_json().encode())
    return digest.hexdigest()[:16]


def claim(out: Path, run: str) -> None:
    """Make `out` the folder of the run of this fingerprint. CheckpointError where it is another's."""
    mark = out / "run.txt"
    if mark.exists() and mark.read_text() != run:
        raise CheckpointError(
            f"{out} holds training run {mark.read_text()}, of other data or settings than this one ({run}): "
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
        states, options = _states()
        weights, state = states.get_state_dict(model, optimizer, options=options)
        with _alone():
            import_module("torch.distributed.checkpoint").save(
                {"model": weights, "optimizer": state}, checkpoint_id=part
            )
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
            states, options = _states()
            weights, state = states.get_state_dict(model, optimizer, options=options)
            both: dict[str, Any] = {"model": weights, "optimizer": state}
            with _alone():
                import_module("torch.distributed.checkpoint").load(both, checkpoint_id=self.folder / f"step-{step}")
            states.set_state_dict(
                model, optimizer, model_state_dict=both["model"], optim_state_dict=both["optimizer"], options=options
            )
        return step

    def clear(self, accelerator: Any) -> None:
        """The run is over and its model saved."""
        if accelerator.is_main_process:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[int]:
        return [int(path.name.removeprefix("step-")) for path in self.folder.glob("step-*")]


def _states() -> tuple[Any, Any]:
    """PyTorch's module of state dicts, which takes a second to import, and what of a model is kept."""
    states = import_module("torch.distributed.checkpoint.state_dict")
    return states, states.StateDictOptions(ignore_frozen_params=True, strict=False)


@contextmanager
def _alone() -> Iterator[None]:
    """Without the warning that one process is one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized", UserWarning)
        yield
