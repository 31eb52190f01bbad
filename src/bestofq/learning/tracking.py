"""Curves for TensorBoard, Weights & Biases or MLflow: `--log-to tensorboard`, `wandb:PROJECT`, `mlflow:URI`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bestofq.core.errors import ConfigError
from bestofq.core.loading import extra
from bestofq.learning.distributed import is_first_process

Log = Callable[[int, Mapping[str, float]], None]
"""Takes a step and its numbers by name."""


def discard_log(step: int, numbers: Mapping[str, float]) -> None:
    """Keep no curves."""


def _tensorboard(where: str, out: Path, stack: ExitStack) -> Log:
    """Event files in a folder, by default `tensorboard` in that of the training."""
    extra("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(where or str(out / "tensorboard")))

    def log(step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            writer.add_scalar(name, number, step)

    return log


def _wandb(where: str, out: Path, stack: ExitStack) -> Log:
    """A run of a project, by default `bestofq`. W&B reads WANDB_MODE and its other variables itself."""
    run = extra("wandb").init(project=where or "bestofq", name=out.name)
    stack.callback(run.finish)
    return lambda step, numbers: run.log(dict(numbers), step=step)


def _mlflow(where: str, out: Path, stack: ExitStack) -> Log:
    """A run at a tracking URI, by default MLflow's own, in the experiment that MLFLOW_EXPERIMENT_NAME names."""
    mlflow = extra("mlflow")
    if where:
        mlflow.set_tracking_uri(where)
    mlflow.start_run(run_name=out.name)
    stack.callback(mlflow.end_run)
    return lambda step, numbers: mlflow.log_metrics(dict(numbers), step=step)


TRACKERS = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}


@contextmanager
def open_tracker(to: str | None, out: Path) -> Iterator[Log]:
    """Keep the curves of the training in `out` at `to`, NAME or NAME:WHERE. Only the first process keeps them.

    Raises ConfigError for another name, SetupError if its package is not installed.
    """
    name, _, where = (to or "").partition(":")
    if to is not None and name not in TRACKERS:
        raise ConfigError(f"--log-to {to}: curves go to {', '.join(TRACKERS)}, or NAME:WHERE of these")
    with ExitStack() as stack:
        yield TRACKERS[name](where, out, stack) if to is not None and is_first_process() else discard_log
