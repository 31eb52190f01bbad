"""Which process writes a store: a row of the database, which each transaction of the writer reads again."""

import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, select, update
from sqlalchemy.exc import DatabaseError

from bestofq.core.errors import DataError
from bestofq.store.database import insert_new, name_of
from bestofq.store.schema import FACTS

_WRITER = "writer"
_HELD = select(FACTS.c.value).where(FACTS.c.name == _WRITER)


class _Claim(NamedTuple):
    """As the row holds it, words with spaces between."""

    host: str  # boot and process namespace of the machine
    file: str  # that the row was written to: in a copy it says nothing
    pid: str
    begun: str  # by the process, in clock ticks since boot
    token: str

    @property
    def lives(self) -> bool:
        """Whether its process runs: one of this machine, and not another that was given its number."""
        return self.host == _host() and self.begun == _begun(int(self.pid))


@contextmanager
def writing(engine: Engine) -> Iterator[str]:
    """Make this process the one that writes until the context ends; what the row says then, for `check`.

    DataError where a process of this machine writes. The claim of one that has died, or of another machine, is taken
    over: if that lives after all, its next transaction fails.
    """
    own = " ".join(_Claim(_host(), _file(engine), str(os.getpid()), _begun(os.getpid()), secrets.token_hex(4)))
    with engine.begin() as connection:
        insert_new(connection, FACTS, [{"name": _WRITER, "value": own}])  # waits for the database's own lock
        held = _held(connection)
        if held is not None and held.token not in own:
            if held.lives and held.file == _file(engine):
                raise DataError(
                    f"{Path(name_of(engine)).parent} is being written by process {held.pid}: wait for it or end it, "
                    "then run the command again"
                )
            connection.execute(update(FACTS).where(FACTS.c.name == _WRITER).values(value=own))
    try:
        yield own
    finally:
        with suppress(DatabaseError), engine.begin() as connection:  # it ends with this process anyway
            connection.execute(delete(FACTS).where(FACTS.c.name == _WRITER, FACTS.c.value == own))


def check(connection: Connection, own: str) -> None:
    """DataError where another process has taken the store over."""
    if connection.scalar(_HELD) != own:
        raise DataError(
            f"{name_of(connection.engine)} was taken over by another process: what was committed before is kept; run "
            "the command again once that has ended"
        )


def is_written(engine: Engine) -> bool:
    """Whether a process of this machine writes it."""
    with engine.connect() as connection:
        held = _held(connection)
        return held is not None and held.lives and held.file == _file(engine)


def _held(connection: Connection) -> _Claim | None:
    words = str(connection.scalar(_HELD) or "").split(" ")
    return _Claim(*words) if len(words) == len(_Claim._fields) and words[2].isdigit() else None


def _file(engine: Engine) -> str:
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
