"""Coroutines at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
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


async def work_off(
    todo: asyncio.Queue[T],
    workers: Iterable[Coroutine[Any, Any, None]],
    more: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Until each item of the queue is `task_done` by the workers, which take from it for ever; `more` may then put in
    others, and says False once that is over. Errors as `run_all`."""

    async def all_work() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in workers]
            await todo.join()
            while more is not None and await more():
                await todo.join()
            for task in tasks:
                task.cancel()

    await run_all([all_work()])
