"""The one place that knows which database it is: where it lies, its pragmas, insert-if-new, upsert.

PostgreSQL at its defaults (fsync, synchronous_commit): what was committed survives a power cut. A server that is away,
as in a restart, is waited for.

SQLite in WAL mode with synchronous=NORMAL: `kill -9` loses nothing that was committed; a power cut may lose the last
commits since the last checkpoint (some seconds of steps), and never corrupts what came before.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Label,
    Row,
    Select,
    Table,
    create_engine,
    event,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from bestofq.core.errors import DamageError, DataError, SetupError
from bestofq.core.loading import extra
from bestofq.store import schema
from bestofq.store.codec import checksum

log = logging.getLogger(__name__)
T = TypeVar("T")
AWAY = 120.0  # seconds that PostgreSQL is waited for
_PAUSE = 0.5
_TRIES = 3
_ENDED = ("57P", "08")  # SQLSTATE of what ends a connection
_BUSY_MS = 10_000
_MAKING = 0xBE57_0F  # a number of our own
_NO_DAMAGE = (
    "BUSY",
    "LOCKED",
    "FULL",
    "IOERR",
    "CANTOPEN",
    "READONLY",
    "PERM",
    "AUTH",
    "NOMEM",
    "CONSTRAINT",
    "NOTADB",
)
_WRITING = ("journal_mode=WAL", "synchronous=NORMAL")
_LOCKING = "BEGIN IMMEDIATE"  # waits for the write lock; SQLite does not wait for it after a read


def sqlite_url(file: Path) -> URL:
    return URL.create("sqlite+pysqlite", database=str(file))


def reading_url(file: Path) -> URL:
    """To read a store. One that cannot be written is taken as it lies, unless a log beside it says more."""
    if os.access(file.parent, os.W_OK) or file.with_name(f"{file.name}-wal").exists():
        return sqlite_url(file)
    return URL.create("sqlite+pysqlite", database=file.absolute().as_uri(), query={"immutable": "1", "uri": "true"})


def connect(url: URL, *, read_only: bool = False) -> Engine:
    """An engine whose transactions begin and end where SQLAlchemy says so. SetupError without PostgreSQL's driver."""
    if url.get_backend_name() == "postgresql":
        extra("psycopg")
        engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        event.listen(engine, "do_connect", _reconnecting_connect())
    else:
        engine = create_engine(url)
        event.listen(engine, "connect", partial(_on_connect, () if read_only else _WRITING))
        event.listen(engine, "begin", _on_begin)
        event.listen(engine, "handle_error", _on_error)
    return engine


def _reconnecting_connect() -> Callable[..., Any]:
    """How to connect: a server that was there once is waited for."""
    reached = False

    def connect(dialect: Dialect, _record: object, words: Sequence[Any], named: Mapping[str, Any]) -> DBAPIConnection:
        nonlocal reached
        began, said = time.monotonic(), False
        while True:
            try:
                made = dialect.connect(*words, **named)
            except dialect.loaded_dbapi.OperationalError as error:
                if not reached or time.monotonic() - began > AWAY:
                    raise
                if not said:
                    log.warning("the database is away, and is waited for: %s", error)
                said = True
                time.sleep(_PAUSE)
            else:
                reached = True
                return made

    return connect


def is_lost(error: DBAPIError) -> bool:
    """Whether the connection itself is gone: what was asked for last may have been committed or not."""
    return error.connection_invalidated or str(getattr(error.orig, "sqlstate", None)).startswith(_ENDED)


def is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def prepare(engine: Engine) -> None:
    """Make the tables of a new database. DataError on another schema version, no database, or no right to write."""
    try:
        with engine.execution_options(begin=_LOCKING).begin() as connection:  # several may begin at once
            if not is_sqlite(engine):
                connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
            if not _is_store(connection):
                schema.METADATA.create_all(connection)
                connection.execute(insert(schema.FACTS).values(name="schema", value=str(schema.VERSION)))
    except DatabaseError as error:
        if is_sqlite(engine):
            raise DataError(f"{name_of(engine)} cannot be written ({error.orig}): give another folder") from error
        raise _unreachable(engine, error) from error


def check(engine: Engine) -> None:
    """Refuse (DataError) what is no store, a store of another schema version, and what this user may not read."""
    try:
        with engine.connect() as connection:
            if not _is_store(connection):
                raise DataError(f"{name_of(engine)} holds no bestofq store: collect episodes into it first")
    except DatabaseError as error:
        if not is_sqlite(engine) or isinstance(error, OperationalError):
            raise _unreachable(engine, error) from error
        raise DataError(
            f"{name_of(engine)} holds no bestofq store ({error.orig}): give another folder, or put back a copy"
        ) from error


def _unreachable(engine: Engine, error: DatabaseError) -> SetupError:
    said = str(error.orig).strip().partition("\n")[0]
    if is_sqlite(engine):
        return SetupError(f"{name_of(engine)} cannot be read ({said}): copy its folder, and read the copy")
    return SetupError(
        f"{name_of(engine)} cannot be used ({said}): start the server, and see to its host, user and database"
    )


def check_lists(engine: Engine) -> None:
    """Raise DamageError if an index does not fit its table: a list of episodes, runs or verdicts may then lack one.
    Other damage is found when it is read."""
    with engine.connect() as connection:
        for table in (schema.EPISODES, schema.RUNS, schema.VERDICTS):
            if damage := find_file_damage(connection, table.name):
                raise damage_error(engine, f"a list ({damage})")


def find_file_damage(connection: Connection, what: str = "1") -> str:
    """Return the first fault that SQLite finds in its file, or in the table `what`; empty without any. PostgreSQL has
    its own tools for that."""
    if not is_sqlite(connection.engine):
        return ""
    first = str(connection.exec_driver_sql(f"PRAGMA integrity_check({what})").scalar())
    return "" if first == "ok" else first


def open_connection(engine: Engine) -> Connection:
    """One for `transaction` alone, as long as it works."""
    options = {"begin": _LOCKING} if is_sqlite(engine) else {"isolation_level": "AUTOCOMMIT"}
    return engine.execution_options(**options).connect()


@contextmanager
def transaction(connection: Connection, *, one_statement: bool = False) -> Iterator[Connection]:
    """All of what is done in it or nothing, on a connection that is kept. `one_statement`: it is one, which PostgreSQL
    commits by itself."""
    if is_sqlite(connection.engine):
        with connection.begin():
            yield connection
    elif one_statement:
        yield connection
    else:
        connection.exec_driver_sql("BEGIN")
        try:
            yield connection
        except BaseException:
            if not connection.invalidated:
                connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


def row_number(connection: Connection) -> Label[Any]:
    """By which all rows of a table can be read in either direction, whatever is damaged."""
    return literal_column("rowid" if is_sqlite(connection.engine) else "ctid").label("row_number")


def read(engine: Engine, work: Callable[[Connection], T]) -> T:
    """What the work reads, again where the connection was lost in it. SetupError where the server stays away, and where
    the file cannot be read."""
    for left in reversed(range(_TRIES)):
        try:
            with engine.connect() as connection:
                return work(connection)
        except OperationalError as error:
            if not (is_lost(error) and left):
                raise _unreachable(engine, error) from error
    raise AssertionError


def rows_of(engine: Engine, query: Select[Any]) -> Sequence[Any]:
    """The rows, each a tuple whose columns have names."""
    return read(engine, lambda connection: connection.execute(query).all())


def scalar_of(engine: Engine, query: Select[Any]) -> Any:
    """The first column of the first row; None without rows."""
    return read(engine, lambda connection: connection.scalar(query))


def damage_error(bind: Engine | Connection, what: str) -> DamageError:
    """Return the error for something in a store that is not what was written."""
    return DamageError.of(f"{what} in {name_of(bind.engine)}", store_of(bind.engine))


def verify_rows(bind: Engine | Connection, table: Table, rows: Iterable[Row[Any]]) -> Iterator[Any]:
    """The rows, whose first columns are the table's. DamageError where these are not what was written."""
    count = len(table.c) - 1
    for row in rows:
        if checksum(row[:count]) != row[count]:
            named = ", ".join(f"{column.name} {row[i]}" for i, column in enumerate(table.c) if column.primary_key)
            raise damage_error(bind, f"a row of {table.name} ({named})")
        yield row


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose primary key is not there yet; leave the others as they are."""
    if rows:
        connection.execute(_insert_new(connection.dialect.name, table), rows[0] if len(rows) == 1 else list(rows))


@cache
def _insert_new(dialect: str, table: Table) -> Executable:
    statement: Executable = (sqlite if dialect == "sqlite" else postgresql).insert(table).on_conflict_do_nothing()
    return statement


def replace(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Put a row in the place of the one with its primary key."""
    same = [column == row[column.name] for column in table.primary_key]
    connection.execute(update(table).where(*same), schema.add_checksum(table, row))


def upsert(
    connection: Connection, table: Table, row: Mapping[str, Any], *, only: ColumnElement[bool] | None = None
) -> bool:
    """Insert a row, or put it in the place of the one with its primary key, if that is such a one; whether it was."""
    query = (sqlite if is_sqlite(connection.engine) else postgresql).insert(table)
    others = {column.name: query.excluded[column.name] for column in table.c if not column.primary_key}
    query = query.on_conflict_do_update(index_elements=list(table.primary_key), set_=others, where=only)
    return connection.execute(query.execution_options(preserve_rowcount=True), row).rowcount == 1


def _is_store(connection: Connection) -> bool:
    """DataError where it is one of another schema version."""
    if not inspect(connection).has_table(schema.FACTS.name):
        return False
    version = connection.scalar(select(schema.FACTS.c.value).where(schema.FACTS.c.name == "schema"))
    if version != str(schema.VERSION):
        raise DataError(
            f"{name_of(connection.engine)} has store schema {version}, this bestofq reads schema {schema.VERSION}: "
            "give another folder, or install the bestofq that wrote it"
        )
    return True


def name_of(engine: Engine) -> str:
    """The database's file as a path, or its address without the password."""
    name = engine.url.render_as_string(hide_password=True)
    if is_sqlite(engine):
        name = engine.url.database or name
    return unquote(urlsplit(name).path) if name.startswith("file:") else name


def store_of(engine: Engine) -> str:
    """What follows `--store`: of SQLite the folder."""
    return str(Path(name_of(engine)).parent) if is_sqlite(engine) else name_of(engine)


def _on_connect(journal: Sequence[str], dbapi: Any, _record: object) -> None:
    dbapi.isolation_level = None  # the driver begins no transaction of its own: `_on_begin` does
    cursor, last = dbapi.cursor(), time.monotonic() + _BUSY_MS / 1000
    left = [f"busy_timeout={_BUSY_MS}", *journal, "foreign_keys=ON", "cache_size=-32768"]
    while left:
        try:
            cursor.execute(f"PRAGMA {left[0]}")
            del left[0]
        except sqlite3.OperationalError as error:  # SQLite does not wait for another that turns a new file to WAL
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)
    cursor.close()


def _on_error(context: ExceptionContext) -> None:
    """A damaged file as a DamageError; what may pass (a lock, a full disk) as it is."""
    said, engine = context.original_exception, context.engine
    name = str(getattr(said, "sqlite_errorname", "")).removeprefix("SQLITE_").partition("_")[0]
    if isinstance(said, sqlite3.DatabaseError) and engine is not None and name not in _NO_DAMAGE:
        raise damage_error(engine, f"something ({said})") from said


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))
