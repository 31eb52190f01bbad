"""Which processes write a store: a row each. In SQLite one at a time; in PostgreSQL any number.

A writer of this machine is dead once its process is. Of another machine only its signs of life tell: it renews its row
every `BEAT` seconds, and is dead after `LEASE` seconds without, by the database's clock and as long as that is up. That
needs nothing of the connection: a pooler, a restarted server and a lost host are all the same to it. It may be wrong
about a writer that was merely slow: so only the right to take over relies on it, and what the slow one commits then is
refused by the database (`attempts.py`).
"""

import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, func, insert, select, update
from sqlalchemy.exc import DatabaseError

from bestofq.core.errors import DataError
from bestofq.store.database import is_sqlite, name_of
from bestofq.store.schema import WRITERS

BEAT, LEASE = 10.0, 60.0


class _WriterProcess(NamedTuple):
    """As a row holds it, words with spaces between."""

    host: str  # boot and process namespace of the machine
    file: str  # that the row was written to: in a copy it says nothing; `-`: no file
    pid: str
    begun: str  # by the process, in clock ticks since boot

    @property
    def lives(self) -> bool:
        """Whether it runs, on this machine, and is not another that was given its number."""
        return self.pid.isdecimal() and self.begun == _begun(int(self.pid))


@dataclass
class Claim:
    """That of this process. `token`: the name of its row, never used again."""

    engine: Engine
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    lost: Event = field(default_factory=Event)

    def check(self, connection: Connection) -> None:
        """DataError where another process has taken over."""
        if is_sqlite(self.engine):
            held = connection.scalar(select(WRITERS.c.token).where(WRITERS.c.token == self.token)) is not None
        else:
            held = not self.lost.is_set()
        if not held:
            raise DataError(
                f"{name_of(self.engine)} was taken over by another process: what was committed before is kept; run the "
                "command again once that has ended"
            )


@contextmanager
def claim_writer(engine: Engine) -> Iterator[Claim]:
    """Make this process one that writes until the context ends.

    DataError where another process of this machine writes to SQLite. There the claim of one that has died, or of
    another machine, is taken over: if that lives after all, its next transaction fails.
    """
    own = Claim(engine)
    process = " ".join(_WriterProcess(_host(), _file(engine), str(os.getpid()), _begun(os.getpid())))
    with engine.begin() as connection:
        connection.execute(insert(WRITERS).values(token=own.token, process=process, beat=_now(connection)))  # locks
        if is_sqlite(engine) and (others := bury(connection) - {own.token}):
            words = connection.scalar(select(WRITERS.c.process).where(WRITERS.c.token.in_(others)))
            raise DataError(
                f"{Path(name_of(engine)).parent} is being written by process {str(words).split()[2]}: wait for it or "
                "end it, then run the command again"
            )
    stop = Event()
    beating = Thread(target=_beat, args=(own, stop), name="bestofq-store-heartbeat", daemon=True)
    if not is_sqlite(engine):
        beating.start()
    try:
        yield own
    finally:
        stop.set()
        if beating.is_alive():
            beating.join(BEAT)
        with suppress(DatabaseError), engine.begin() as connection:  # it ends with this process anyway
            connection.execute(delete(WRITERS).where(WRITERS.c.token == own.token))


def bury(connection: Connection) -> set[str]:
    """Remove the rows of dead writers; the tokens of those that live."""
    deadline, living = _deadline(connection), set()
    for row in connection.execute(select(WRITERS)).all():
        same = (WRITERS.c.token == row.token, WRITERS.c.beat == row.beat)  # one that was renewed meanwhile stays
        if _lives(connection.engine, row, deadline) or connection.execute(delete(WRITERS).where(*same)).rowcount == 0:
            living.add(row.token)
    return living


def dismiss(connection: Connection, token: str) -> None:
    """Remove a writer's row, whether it lives or not."""
    connection.execute(delete(WRITERS).where(WRITERS.c.token == token))


def is_written(engine: Engine) -> bool:
    """Whether a process writes it: of SQLite one of this machine."""
    with engine.connect() as connection:
        deadline = _deadline(connection)
        return any(_lives(engine, row, deadline) for row in connection.execute(select(WRITERS)).all())


def _lives(engine: Engine, row: Any, deadline: float) -> bool:
    if (process := _process(row.process)) is None:
        return False
    if process.host == _host():
        return process.lives and process.file == _file(engine)
    return not is_sqlite(engine) and bool(row.beat > deadline)


def _process(words: str) -> _WriterProcess | None:
    found = words.split(" ")
    return _WriterProcess(*found) if len(found) == len(_WriterProcess._fields) else None


def _beat(own: Claim, stop: Event) -> None:
    """Renew the claim until it ends or is lost. A database that does not answer is asked again."""
    ours = update(WRITERS).where(WRITERS.c.token == own.token)
    while not stop.wait(BEAT):
        with suppress(DatabaseError), own.engine.begin() as connection:
            if connection.execute(ours.values(beat=_now(connection))).rowcount == 0 and not stop.is_set():
                own.lost.set()
                return


def _deadline(connection: Connection) -> float:
    """Who last gave a sign of life before that is dead. A server that has just begun gives all of them `LEASE`."""
    if is_sqlite(connection.engine):
        return 0.0
    begun = connection.scalar(select(func.extract("epoch", func.pg_postmaster_start_time())))
    silent = _now(connection) - LEASE
    return silent if silent > float(begun or 0.0) else 0.0


def _now(connection: Connection) -> float:
    """Seconds of the database's clock; SQLite needs none."""
    if is_sqlite(connection.engine):
        return 0.0
    return float(connection.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)


def _file(engine: Engine) -> str:
    if is_sqlite(engine):
        with suppress(OSError):
            found = Path(name_of(engine)).stat()
            return f"{found.st_dev}:{found.st_ino}"
    return "-"


def _host() -> str:
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    return platform.node().replace(" ", "-") or "-"


def _begun(pid: int) -> str:
    """When a process began; empty where there is none, or it has ended and its parent does not know yet."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "-"
    return "" if state in "ZX" else rest[18]
