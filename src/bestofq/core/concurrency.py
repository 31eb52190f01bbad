"""Coroutines at once, and what a command runs until Ctrl-C stops it."""

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


async def run_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, in their order. The first error ends the others and is raised as it is, out of its groups."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in coroutines]
    except ExceptionGroup as errors:
        error: Exception = errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    return [task.result() for task in tasks]


async def work_off(todo: deque[T], do: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Do every item, `concurrency` at once. `do` may add items. Errors as `run_all`."""

    async def work() -> None:
        while todo:
            await do(todo.popleft())

    await run_all(work() for _ in range(concurrency))


@contextmanager
def on_ctrl_c(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Have Ctrl-C call `handler` in the main thread, unless the process ignores it."""
    before = signal.getsignal(signal.SIGINT)
    heard = callable(before) and threading.current_thread() is threading.main_thread()
    if heard:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if heard and signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`. After a Ctrl-C the process ignores further ones, so that what is open is closed."""

    async def stoppable() -> T:
        stop: Any = signal.getsignal(signal.SIGINT)  # asyncio's, which cancels this task

        def once(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stop(number, frame)

        with on_ctrl_c(once):
            return await work

    return asyncio.run(stoppable())
