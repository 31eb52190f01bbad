"""Training curves for TensorBoard (`--log-to FOLDER`)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bestofq.core.loading import extra
from bestofq.learning.distributed import is_first_process

Log = Callable[[int, Mapping[str, float]], None]  # takes a step and its numbers by name


def discard_log(step: int, numbers: Mapping[str, float]) -> None:
    """Keep no curves."""


@contextmanager
def open_tracker(folder: Path | None) -> Iterator[Log]:
    """Keep the curves as event files in a folder. Only the first process keeps them. SetupError without the extra."""
    if folder is None or not is_first_process():
        yield discard_log
        return
    extra("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def log(step: int, numbers: Mapping[str, float]) -> None:
            for name, number in numbers.items():
                writer.add_scalar(name, number, step)

        yield log
