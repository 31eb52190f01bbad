"""One thread that writes: jobs of many callers share a transaction, and each caller learns of its own commit."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from bestofq.core.errors import BestOfQError, SetupError

T = TypeVar("T")
_BATCH = 256


@dataclass(slots=True)
class _Job:
    """`run` may be called twice: once in a batch that failed, once alone."""

    run: Callable[[Connection], Any]
    done: Future[Any] = field(default_factory=Future)
    result: Any = None


class Writer:
    """Runs jobs in the order they were handed in, as many in one transaction as are waiting."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="bestofq-store-writer", daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[Connection], T]) -> Future[T]:
        """A future that is done once the job is committed, or holds the error that rolled it back."""
        if self._closed:
            raise BestOfQError("the store is closed: open it again to write")
        job = _Job(run)
        self._waiting.put(job)
        return cast("Future[T]", job.done)

    def close(self) -> None:
        """Commit what waits and end the thread."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            batch = [job]
            while len(batch) < _BATCH and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._commit(batch)
                    return
                batch.append(following)
            self._commit(batch)

    def _commit(self, batch: list[_Job]) -> None:
        batch = [job for job in batch if job.done.set_running_or_notify_cancel()]
        try:
            self._transact(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].done.set_exception(_sentence(error))
                return
            for job in batch:  # one of them is at fault: each on its own
                self._commit_alone(job)
            return
        for job in batch:
            job.done.set_result(job.result)

    def _commit_alone(self, job: _Job) -> None:
        try:
            self._transact([job])
        except Exception as error:
            job.done.set_exception(_sentence(error))
        else:
            job.done.set_result(job.result)

    def _transact(self, batch: list[_Job]) -> None:
        with self._engine.begin() as connection:
            for job in batch:
                job.result = job.run(connection)


def _sentence(error: Exception) -> Exception:
    """A full disk or a locked file as a sentence; a programming error as it is."""
    if isinstance(error, OperationalError):
        sentence = SetupError(f"the store cannot be written ({error.orig}): mend that and run the same command again")
        sentence.__cause__ = error
        return sentence
    return error
