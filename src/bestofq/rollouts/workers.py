"""Many items at once, by workers in this process or in those of a cluster (`cluster.py`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from bestofq.core.concurrency import run_all
from bestofq.core.usage import Usage
from bestofq.models.prices import Budget
from bestofq.store.location import Location
from bestofq.store.store import Store

log = logging.getLogger(__name__)
SHARED = 2.0  # seconds between looks at what another process does

Item = TypeVar("Item")
Do = Callable[[Any], Awaitable[Any]]
Report = Callable[[Sequence[Usage]], None]
"""Called after each step of a long item, with what the step used."""


class LostError(Exception):
    """The process that had an item died. What it had committed is in the store, and nobody owns it."""


@dataclass(frozen=True)
class Worker:
    """Does one item after another. `do` raises LostError if its process dies. `ready` waits until it can do one; None:
    it always can."""

    do: Do
    ready: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Shared:
    """What a process of a cluster shares with the others of its command."""

    budget: Budget = field(default_factory=Budget)  # of this process, and what it knows of the others' spending
    steps: list[Sequence[Usage]] = field(default_factory=list)  # that the command has not heard of yet


Opens = Callable[[Shared], AbstractAsyncContextManager[tuple[Do, str]]]
"""Called in a process of a cluster: what it does with an item, and the name by which it writes the store."""


class Hosts(Protocol):
    """Processes of a cluster that do items, such as `cluster.ClusterHosts`."""

    @property
    def store(self) -> Location:
        """The store that all of them write."""
        ...

    def open_hosts(
        self, opens: Opens, at_once: int, store: Store, report: Report
    ) -> AbstractAsyncContextManager[Sequence[Worker]]:
        """Yield each process as often as it does items at once. They end with the context."""
        ...


async def work_off(
    todo: asyncio.Queue[Item],
    workers: Iterable[Worker],
    do: Callable[[Worker, Item], Awaitable[None]],
    more: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Do every item, each worker one at a time. A lost item is done again.

    Args:
        todo: the items. `do` and `more` may put more into it.
        more: called when it is empty; False ends the work.

    Errors as `run_all`.
    """

    async def work(worker: Worker) -> None:
        while True:
            if worker.ready is not None:
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
            tasks = [group.create_task(work(worker)) for worker in workers]
            await todo.join()
            while more is not None and await more():
                await todo.join()
            for task in tasks:
                task.cancel()

    await run_all([all_work()])
