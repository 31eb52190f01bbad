"""Joins the requests of many episodes into batches for one synchronous function.

While a batch is being worked on the next one gathers, so that batches grow with the load and a lone request waits for
nobody.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class MicroBatcher(Generic[Item, Result]):
    """`await submit(item)` from any number of tasks of one event loop; `work` runs in a thread, one batch at a time."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]], *, limit: int) -> None:
        self._work = work
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._busy: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        """The result for `item`. An exception of `work` is raised to every request of its batch."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        await asyncio.sleep(0)  # every task that can run now may still join
        while self._waiting:
            batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
            try:
                results = await asyncio.to_thread(self._work, [item for item, _ in batch])
            except Exception as error:  # handed on to every waiter
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
