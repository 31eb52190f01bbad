"""Curves for TensorBoard, Weights & Biases or MLflow: `--log-to tensorboard`, `wandb:PROJECT`, `mlflow:URI`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bestofq.core.errors import ConfigError
from bestofq.core.loading import extra
from bestofq.learning.distributed import is_first_process

Log = Callable[[int, Mapping[str, float]], None]
"""Takes a step and its numbers by name."""


class Tracker(Protocol):
    """Where curves are kept, made from what follows the colon ("" for none) and the folder of what is trained."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in a folder; by default `tensorboard` in that of what is trained."""

    def __init__(self, where: str, out: Path) -> None:
        extra("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(where or str(out / "tensorboard"))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A run of a project, by default `bestofq`. WANDB_MODE and the rest are W&B's own."""

    def __init__(self, where: str, out: Path) -> None:
        self.run = extra("wandb").init(project=where or "bestofq", name=out.name)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """A run at a tracking URI, by default MLflow's own, in the experiment that MLFLOW_EXPERIMENT_NAME names."""

    def __init__(self, where: str, out: Path) -> None:
        self.mlflow = extra("mlflow")
        if where:
            self.mlflow.set_tracking_uri(where)
        self.mlflow.start_run(run_name=out.name)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.mlflow.log_metrics(dict(numbers), step=step)

    def close(self) -> None:
        self.mlflow.end_run()


TRACKERS: Mapping[str, Callable[[str, Path], Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}


def discard_log(step: int, numbers: Mapping[str, float]) -> None:
    """Keeps no curves."""


@contextmanager
def open_tracker(to: str | None, out: Path) -> Iterator[Log]:
    """Keeps the curves of what is trained in `out` at `to`, NAME or NAME:WHERE; of several processes the first does.
    ConfigError on another name, SetupError where its package is not installed."""
    name, _, where = (to or "").partition(":")
    if to is not None and name not in TRACKERS:
        raise ConfigError(f"--log-to {to}: curves go to {', '.join(TRACKERS)}, or NAME:WHERE of these")
    if to is None or not is_first_process():
        yield discard_log
        return
    tracker = TRACKERS[name](where, out)
    try:
        yield tracker.log
    finally:
        tracker.close()
