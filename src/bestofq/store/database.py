"""The one place that knows which database it is: where it lies, its pragmas, the writer's lock, insert-if-new.

SQLite in WAL mode with synchronous=NORMAL: `kill -9` loses nothing that was committed; a power cut may lose the last
commits since the last checkpoint (some seconds of steps), and never corrupts what came before.
"""

import fcntl
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, insert, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, OperationalError

from bestofq.core.errors import DataError
from bestofq.store import schema

_BUSY_MS = 10_000
_WRITING = ("journal_mode=WAL", "synchronous=NORMAL")


def sqlite_url(file: Path) -> URL:
    return URL.create("sqlite+pysqlite", database=str(file))


def reading_url(file: Path) -> URL:
    """To read a store. One that cannot be written is taken as it lies, unless a log beside it says more."""
    if os.access(file.parent, os.W_OK) or file.with_name(f"{file.name}-wal").exists():
        return sqlite_url(file)
    return URL.create("sqlite+pysqlite", database=file.absolute().as_uri(), query={"immutable": "1", "uri": "true"})


def connect(url: URL | str, *, read_only: bool = False) -> Engine:
    """An engine whose transactions begin and end where SQLAlchemy says so, on any of its databases."""
    url = make_url(url)
    engine = create_engine(url)
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", partial(_on_connect, () if read_only else _WRITING))
        event.listen(engine, "begin", _on_begin)
    return engine


def prepare(engine: Engine) -> None:
    """Make the tables of a new database; refuse (DataError) a database of another schema version, what is no database,
    and what this user may not write."""
    try:
        with engine.begin() as connection:
            if inspect(connection).has_table(schema.FACTS.name):
                _check(connection)
            else:
                schema.METADATA.create_all(connection)
                connection.execute(insert(schema.FACTS).values(name="schema", value=str(schema.VERSION)))
    except DatabaseError as error:
        raise DataError(f"{_name(engine)} cannot be written ({error.orig}): give another folder") from error


def check(engine: Engine) -> None:
    """Refuse (DataError) what is no store, a store of another schema version, and what this user may not read."""
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table(schema.FACTS.name):
                raise DataError(f"{_name(engine)} holds no bestofq store: collect episodes into it first")
            _check(connection)
    except OperationalError as error:
        raise DataError(f"{_name(engine)} cannot be read ({error.orig}): copy its folder, and read the copy") from error
    except DatabaseError as error:
        raise DataError(f"{_name(engine)} holds no bestofq store ({error.orig}): give another folder") from error


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose primary key is not there yet; leave the others as they are."""
    if rows:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


class WriterLock:
    """Held by the one process that may write a folder; the kernel lets go of it when that process ends, however."""

    def __init__(self, file: Path) -> None:
        self._held: IO[str] = file.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._held.seek(0)
            holder = self._held.read().strip()
            self._held.close()
            raise DataError(
                f"{file.parent} is being written by process {holder}: wait for it or end it, then run the command again"
            ) from None
        self._held.truncate(0)
        self._held.write(str(os.getpid()))
        self._held.flush()

    def release(self) -> None:
        self._held.close()


def is_written(lock: Path) -> bool:
    """Whether the process that took a `WriterLock` last still runs. The lock is not tried: a writer may want it."""
    try:
        os.kill(int(lock.read_text("utf-8")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except (OSError, ValueError, OverflowError):  # another user's, or just being taken
        return True
    return True


def _check(connection: Connection) -> None:
    found = connection.scalar(select(schema.FACTS.c.value).where(schema.FACTS.c.name == "schema"))
    if found != str(schema.VERSION):
        raise DataError(
            f"{_name(connection.engine)} has store schema {found}, this bestofq reads schema {schema.VERSION}: "
            "give another folder, or install the bestofq that wrote it"
        )


def _name(engine: Engine) -> str:
    return engine.url.database or engine.url.render_as_string(hide_password=True)


def _on_connect(journal: Sequence[str], dbapi: Any, _record: object) -> None:
    dbapi.isolation_level = None  # the driver begins no transaction of its own: `_on_begin` does
    cursor = dbapi.cursor()
    for pragma in (f"busy_timeout={_BUSY_MS}", *journal, "foreign_keys=ON", "cache_size=-32768"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
