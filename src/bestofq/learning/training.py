"""IQL as a run of hours, which may be stopped at any step."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.tracking import Log, discard_log


def train_stoppable(
    data: Transitions,
    config: IQLConfig,
    *,
    begun: IQL | None = None,
    save: Callable[[IQL], Any] | None = None,
    on_step: Callable[[IQL], Any] | None = None,
    log: Log = discard_log,
) -> IQL:
    """`train_iql`, with `save` called every `config.checkpoint_seconds` and when SIGINT or SIGTERM ends the training.

    `begun` is what such a `save` kept; the result is then bit for bit that of a training which never stopped. Raises as
    `train_iql` does; KeyboardInterrupt on SIGINT and SystemExit on SIGTERM, after the step under way; a second signal
    ends the process.
    """
    saved = time.monotonic()
    with _signals() as stopped:

        def after(iql: IQL) -> None:
            nonlocal saved
            if on_step is not None:
                on_step(iql)
            due = iql.step < config.steps and time.monotonic() - saved >= config.checkpoint_seconds
            number = stopped()
            if save is not None and (due or number is not None):
                save(iql)
                saved = time.monotonic()
            if number is not None:
                raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

        return train_iql(data, config, resume=begun, on_step=after, log=log)


@contextmanager
def _signals() -> Iterator[Callable[[], int | None]]:
    """Tells which of SIGINT and SIGTERM came. A second one does what it did before."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone may listen to signals
        yield lambda: None
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, _frame: object) -> None:
        came.append(number)
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: came[0] if came else None
    finally:
        restore()
