"""Many items at once, by workers in this process or in those of a cluster (`cluster.py`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from bestofq.core.concurrency import run_all

log = logging.getLogger(__name__)
SHARED = 2.0  # seconds between looks at what another process does

Item = TypeVar("Item")


class LostError(Exception):
    """The process died that had an item; what it had committed is in the store, and nobody's."""


class Worker(Protocol):
    """Does one item or several at once."""

    async def ready(self) -> None:
        """Once it can take an item."""

    def do(self, item: Any, /) -> Awaitable[Any]:
        """LostError where its process dies."""


@dataclass(frozen=True)
class Here:
    """A worker in this process."""

    do: Callable[[Any], Awaitable[Any]]

    async def ready(self) -> None:
        """At once."""


async def work_off(
    todo: asyncio.Queue[Item],
    workers: Iterable[Worker],
    do: Callable[[Worker, Item], Awaitable[None]],
    more: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Until the queue is empty and each item done, one at a time by each of `workers`; what is lost goes back, and `do`
    may put in more. So may then `more`, which says False once that is over. Errors as `run_all`."""

    async def work(worker: Worker) -> None:
        while True:
            await worker.ready()
            item = await todo.get()
            try:
                await do(worker, item)
            except LostError as error:
                log.info("an item is done again: %s", error)
                todo.put_nowait(item)
            todo.task_done()

    async def all_work() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(one)) for one in workers]
            await todo.join()
            while more is not None and await more():
                await todo.join()
            for task in tasks:
                task.cancel()

    await run_all([all_work()])


def queue_of(items: Iterable[Item]) -> asyncio.Queue[Item]:
    queue: asyncio.Queue[Item] = asyncio.Queue()
    for item in items:
        queue.put_nowait(item)
    return queue
