"""Joins the requests of many episodes into batches for one synchronous function.

While batches are worked on the next one gathers: batches grow with the load, and a lone request waits for nobody.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
WORTH_SHARING = 8  # requests; fewer make one batch though several could be worked on


def in_groups(
    items: Sequence[Item],
    work: Callable[[list[Item]], Iterable[Result]],
    *,
    size: int,
    length: Callable[[Item], int],
    kind: Callable[[Item], Any] = lambda _: 0,
) -> list[Result]:
    """The result for each item, in order. `work` gets up to `size` items of one kind and alike lengths at once."""
    order = sorted(range(len(items)), key=lambda i: (kind(items[i]), length(items[i])))
    results: dict[int, Result] = {}
    for _, alike in groupby(order, key=lambda i: kind(items[i])):
        indices = list(alike)
        for group in (indices[start : start + size] for start in range(0, len(indices), size)):
            results.update(zip(group, work([items[i] for i in group]), strict=True))
    return [results[i] for i in range(len(items))]


class MicroBatcher(Generic[Item, Result]):
    """`await submit(item)` from tasks of one event loop at a time; `work` runs in threads, `lanes` batches at once."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]], *, limit: int, lanes: int = 1) -> None:
        self.busy = 0  # lanes at work
        self._work, self._limit, self._lanes = work, limit, lanes
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def submit(self, item: Item) -> Result:
        """The result for `item`. An exception of `work` is raised to every request of its batch."""
        if (loop := asyncio.get_running_loop()) is not self._loop:  # one that was cut off may have left anything
            self._loop, self._waiting, self._gathering, self.busy = loop, [], False, 0
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        self._begin()
        return await future

    def _begin(self) -> None:
        if self._waiting and self.busy < self._lanes and not self._gathering:
            self._gathering = True
            self._keep(asyncio.create_task(self._gather()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self) -> None:
        await asyncio.sleep(0)  # every task that can run now may still join
        self._gathering = False
        while self._waiting and self.busy < self._lanes:
            share = ceil(len(self._waiting) / (self._lanes - self.busy))
            size = min(self._limit, max(share, WORTH_SHARING))
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            self.busy += 1
            self._keep(asyncio.create_task(self._carry_out(batch)))

    async def _carry_out(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await asyncio.to_thread(self._work, [item for item, _ in batch])
        except Exception as error:  # handed on to every waiter
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        finally:
            self.busy -= 1
        self._begin()  # unless the loop ends, which has cancelled this
