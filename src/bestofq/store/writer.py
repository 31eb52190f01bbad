"""One thread that writes: jobs of many callers share a transaction, and each caller learns of its own commit."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from bestofq.core.errors import BestOfQError, DataError, SetupError
from bestofq.store.claim import check

T = TypeVar("T")
_BATCH = 256


class _Job(NamedTuple):
    """`run` may be called twice: once in a batch that failed, once alone."""

    run: Callable[[Connection], Any]
    done: Future[Any]


class Writer:
    """Runs jobs in the order they were handed in, as many in one transaction as are waiting. `held`: the claim of this
    process (`claim.writing`); None: it only reads."""

    def __init__(self, engine: Engine, held: str | None) -> None:
        self._engine = engine
        self._held = held
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bestofq-store-writer")

    async def commit(self, run: Callable[[Connection], T]) -> T:
        """What the job returns, once it is committed. Raises as `submit`, and the error that rolled it back."""
        return await asyncio.wrap_future(self.submit(run))

    def submit(self, run: Callable[[Connection], T]) -> Future[T]:
        """Done once the job is committed, or holds its error. DataError: opened read-only; BestOfQError: closed."""
        if self._held is None:
            raise DataError(f"{self._engine.url.database} was opened read-only: open it for writing")
        done: Future[T] = Future()
        self._waiting.append(_Job(run, done))
        try:
            self._thread.submit(self._work)
        except RuntimeError:
            raise BestOfQError("the store is closed: open it again to write") from None
        return done

    def close(self) -> None:
        """Commit what waits and end the thread."""
        self._thread.shutdown()

    def _work(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        if batch := [job for job in some if job.done.set_running_or_notify_cancel()]:
            self._commit(batch)

    def _commit(self, batch: list[_Job]) -> None:
        try:
            with self._engine.begin() as connection:
                check(connection, self._held or "")
                results = [job.run(connection) for job in batch]
        except Exception as error:
            if len(batch) == 1:
                batch[0].done.set_exception(_sentence(error))
                return
            for job in batch:  # one of them is at fault: each on its own
                self._commit([job])
        else:
            for job, result in zip(batch, results, strict=True):
                job.done.set_result(result)


def _sentence(error: Exception) -> Exception:
    """A full disk or a locked file as a sentence; a programming error as it is."""
    if isinstance(error, OperationalError):
        sentence = SetupError(f"the store cannot be written ({error.orig}): fix that, then run the same command again")
        sentence.__cause__ = error
        return sentence
    return error
