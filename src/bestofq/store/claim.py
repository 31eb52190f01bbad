"""Which processes write a store: a row each. In SQLite one at a time; in PostgreSQL any number.

A writer of this machine is dead when its process is. A writer of another machine renews its row every `BEAT` seconds.
It is dead after `LEASE` seconds without, by the database's clock and while the database is up. A pooler, a restarted
server or a lost host change nothing about that. It may be wrong about a slow writer. So it only gives the right to take
over, and the database refuses what the slow one commits then (`attempts.py`).
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update
from sqlalchemy.exc import DatabaseError

from bestofq.core.errors import DataError
from bestofq.store.database import is_sqlite, name_of
from bestofq.store.schema import WRITERS

BEAT, LEASE = 10.0, 60.0


@dataclass
class Claim:
    """The claim of this process. `token`: the name of its row, never used again. `file`: the database's."""

    engine: Engine
    file: str
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    lost: Event = field(default_factory=Event)

    def check(self, connection: Connection) -> None:
        """Raise DataError if another process has taken over, or the file is gone."""
        lost = self.lost.is_set()
        if is_sqlite(self.engine):
            self.check_file()
            lost = connection.scalar(select(WRITERS.c.token).where(WRITERS.c.token == self.token)) is None
        if lost:
            raise DataError(
                f"{name_of(self.engine)} was taken over by another process: what was committed before is kept; run the "
                "command again once that has ended"
            )

    def check_file(self) -> None:
        """Raise DataError if the database's file was deleted, moved or replaced since the claim."""
        if _identify_file(self.engine) != self.file:
            raise DataError(
                f"{name_of(self.engine)} was deleted or moved while it was written, and what came since is lost: "
                "put it back, then run the same command again"
            )


@contextmanager
def claim_writer(engine: Engine) -> Iterator[Claim]:
    """Make this process a writer until the context ends.

    DataError if another process of this machine writes to SQLite. A claim on SQLite by a dead process, or by another
    machine, is taken over: if that process lives, its next transaction fails.
    """
    own = Claim(engine, _identify_file(engine))
    with engine.begin() as connection:
        process, now = _describe_process(engine, os.getpid()), _clock(connection)[0]
        connection.execute(insert(WRITERS).values(token=own.token, process=process, beat=now))  # locks
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
        own.check_file()
    finally:
        stop.set()
        if beating.is_alive():
            beating.join(BEAT)
        with suppress(DatabaseError), engine.begin() as connection:  # it ends with this process anyway
            connection.execute(delete(WRITERS).where(WRITERS.c.token == own.token))


def bury(connection: Connection) -> set[str]:
    """Remove the rows of dead writers. Return the tokens of the living."""
    living = set()
    for row, lives in _list_writers(connection):
        same = (WRITERS.c.token == row.token, WRITERS.c.beat == row.beat)  # one that was renewed meanwhile stays
        if lives or connection.execute(delete(WRITERS).where(*same)).rowcount == 0:
            living.add(row.token)
    return living


def is_written(engine: Engine) -> bool:
    """Return whether a process writes the store (to SQLite: one of this machine)."""
    with engine.connect() as connection:
        return any(lives for _, lives in _list_writers(connection))


def _list_writers(connection: Connection) -> Iterator[tuple[Any, bool]]:
    """Yield each writer's row, and whether the writer lives. A restarted server gives all of them `LEASE` again."""
    now, begun = _clock(connection)
    for row in connection.execute(select(WRITERS)).all():
        host, *rest = row.process.split(" ")
        if len(rest) != 3:
            yield row, False
        elif host == _host():
            yield row, rest[1].isdecimal() and row.process == _describe_process(connection.engine, int(rest[1]))
        else:
            yield row, not is_sqlite(connection.engine) and (row.beat > now - LEASE or begun > now - LEASE)


def _beat(own: Claim, stop: Event) -> None:
    """Renew the claim until it ends or is lost. A database that does not answer is tried again."""
    ours = update(WRITERS).where(WRITERS.c.token == own.token)
    while not stop.wait(BEAT):
        with suppress(DatabaseError), own.engine.begin() as connection:
            if connection.execute(ours.values(beat=_clock(connection)[0])).rowcount == 0 and not stop.is_set():
                own.lost.set()
                return


def _clock(connection: Connection) -> tuple[float, float]:
    """Return the time and the start of the database server, in seconds. SQLite needs neither."""
    if is_sqlite(connection.engine):
        return 0.0, 0.0
    seconds = (func.extract("epoch", time) for time in (func.clock_timestamp(), func.pg_postmaster_start_time()))
    now, begun = map(float, connection.execute(select(*seconds)).one())
    return now, begun


def _describe_process(engine: Engine, pid: int) -> str:
    """Return four words: host, database file (a copy is another), process and its beginning in clock ticks since boot.

    The last is empty without such a process, or if it has ended and its parent does not know yet.
    """
    begun = ""
    with suppress(OSError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        begun = "" if state in "ZX" else rest[18]
    return f"{_host()} {_identify_file(engine)} {pid} {begun}"


def _identify_file(engine: Engine) -> str:
    """Return the device and the inode of the database's file; "-" without."""
    with suppress(OSError):
        if is_sqlite(engine):
            stat = Path(name_of(engine)).stat()
            return f"{stat.st_dev}:{stat.st_ino}"
    return "-"


def _host() -> str:
    """Return the boot and the process namespace of this machine."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
