"""Coroutines at once, and what a command runs until Ctrl-C stops it."""

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
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


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`. After a Ctrl-C the process ignores further ones, so that what is open is closed."""

    async def stoppable() -> T:
        stop = signal.getsignal(signal.SIGINT)  # asyncio's, which cancels this task
        if not callable(stop) or threading.current_thread() is not threading.main_thread():
            return await work

        def once(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stop(number, frame)

        signal.signal(signal.SIGINT, once)
        try:
            return await work
        finally:
            if signal.getsignal(signal.SIGINT) is once:
                signal.signal(signal.SIGINT, stop)

    return asyncio.run(stoppable())
