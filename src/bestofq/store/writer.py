"""One thread that writes: jobs of many callers share a transaction, and each caller learns of its own commit."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from bestofq.core.errors import BestOfQError, DataError, SetupError
from bestofq.store.claim import Claim
from bestofq.store.database import is_lost, name_of, open_connection, transaction

T = TypeVar("T")
_BATCH = 256
_TRIES, _PAUSE = 5, 0.05  # and seconds between them
_DEADLOCK = "40P01"  # PostgreSQL's word for it


class _Job(NamedTuple):
    """`run` may be called again: alone if its batch failed, or if a connection was lost, even after a commit."""

    run: Callable[[Connection], Any]
    done: Future[Any]
    one_statement: bool


class Writer:
    """Runs jobs in their order, all that wait in one transaction. Without a `claim` the process only reads."""

    def __init__(self, engine: Engine, claim: Claim | None) -> None:
        self._engine = engine
        self._claim = claim
        self._kept: Connection | None = None  # of the thread's own
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bestofq-store-writer")

    @property
    def token(self) -> str:
        """The claim's token; empty if the process only reads."""
        return "" if self._claim is None else self._claim.token

    async def commit(self, run: Callable[[Connection], T], *, one_statement: bool = False) -> T:
        """Return the job's result after its commit. Raises as `submit`, and the error that rolled it back."""
        return await asyncio.wrap_future(self.submit(run, one_statement=one_statement))

    def submit(self, run: Callable[[Connection], T], *, one_statement: bool = False) -> Future[T]:
        """Return a future of the job's commit or error. DataError: opened read-only; BestOfQError: closed.
        `one_statement`: on PostgreSQL the job is one statement and needs no BEGIN and COMMIT."""
        if self._claim is None:
            raise DataError(f"{name_of(self._engine)} was opened read-only: open it for writing")
        done: Future[T] = Future()
        self._waiting.append(_Job(run, done, one_statement))
        try:
            self._thread.submit(self._work)
        except RuntimeError:
            raise BestOfQError("the store is closed: open it again to write") from None
        return done

    def close(self) -> None:
        self._thread.shutdown()
        self._drop()

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.invalidate()
            self._kept.close()
            self._kept = None

    def _work(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        if batch := [job for job in some if job.done.set_running_or_notify_cancel()]:
            self._commit(batch)

    def _commit(self, batch: list[_Job]) -> None:
        try:
            for job, result in zip(batch, self._transaction(batch), strict=True):
                job.done.set_result(result)
        except Exception as error:
            busy = str(getattr(getattr(error, "orig", None), "sqlite_errorname", "")).startswith("SQLITE_BUSY")
            if len(batch) > 1 and not busy:
                for job in batch:  # one of them is at fault: each on its own
                    self._commit([job])
                return
            for job in batch:
                job.done.set_exception(_sentence(error))

    def _transaction(self, batch: list[_Job]) -> list[Any]:
        """Return the jobs' results. Try again after a deadlock or a lost connection."""
        assert self._claim is not None
        for left in reversed(range(_TRIES)):
            try:
                self._kept = self._kept or open_connection(self._engine)
                alone = len(batch) == 1 and batch[0].one_statement
                with transaction(self._kept, one_statement=alone) as connection:
                    self._claim.check(connection)
                    return [job.run(connection) for job in batch]
            except OperationalError as error:
                if is_lost(error):
                    self._drop()
                elif getattr(error.orig, "sqlstate", None) != _DEADLOCK:
                    raise
                if left == 0:
                    raise
                time.sleep(_PAUSE)  # the other continues meanwhile
        raise AssertionError


def _sentence(error: Exception) -> Exception:
    """A full disk or a locked file as a sentence; a programming error as it is."""
    if not isinstance(error, OperationalError):
        return error
    sentence = SetupError(f"the store cannot be written ({error.orig}): fix that, then run the same command again")
    sentence.__cause__ = error
    return sentence
