"""The only module that knows the kind of database: its address, pragmas and insert statements.

PostgreSQL at its defaults (fsync, synchronous_commit): what was committed survives a power cut. We wait for a server
that is away, as in a restart.

SQLite in WAL mode with synchronous=NORMAL: `kill -9` loses nothing that was committed. A power cut may lose the commits
since the last checkpoint (some seconds of steps), and never damages older ones.
"""

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, Row, Table, event, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect, ExceptionContext, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from bestofq.core.errors import DamageError, DataError, SetupError
from bestofq.core.loading import extra
from bestofq.store import schema
from bestofq.store.codec import checksum
from bestofq.store.location import Location

log = logging.getLogger(__name__)
T = TypeVar("T")
AWAY = 120.0  # seconds that PostgreSQL is waited for
_PAUSE = 0.5
_TRIES = 3
_ENDED = ("57P", "08")  # SQLSTATE of what ends a connection
_BUSY_MS = 10_000
_MAKING = 0xBE57_0F  # a number of our own
_NO_DAMAGE = re.compile("BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|PERM|AUTH|NOMEM|CONSTRAINT|NOTADB")
_WRITING = ("journal_mode=WAL", "synchronous=NORMAL")
_LOCKING = "BEGIN IMMEDIATE"  # waits for the write lock; SQLite does not wait for it after a read


def sqlite_url(file: Path) -> URL:
    return URL.create("sqlite+pysqlite", database=str(file))


def url_of(place: Location, *, read_only: bool = False) -> URL:
    """Return the address of a store's database. A file in a folder without a right to write is read as it is."""
    if not place.is_folder:
        return make_url(place.name)
    file = place.database
    if not read_only or os.access(file.parent, os.W_OK) or file.with_name(f"{file.name}-wal").exists():
        return sqlite_url(file)
    return URL.create("sqlite+pysqlite", database=file.absolute().as_uri(), query={"immutable": "1", "uri": "true"})


def connect(url: URL, *, read_only: bool = False) -> Engine:
    """An engine whose transactions begin and end where SQLAlchemy says so. SetupError without PostgreSQL's driver."""
    if url.get_backend_name() == "postgresql":
        extra("psycopg")
        patience = {"connect_timeout": "10", "tcp_user_timeout": f"{AWAY * 1000:.0f}"}  # a host may answer nothing
        patience = {name: value for name, value in patience.items() if name not in url.query}
        url = url.set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args=patience)
        event.listen(engine, "do_connect", _reconnecting_connect())
    else:
        engine = sa.create_engine(url)
        event.listen(engine, "connect", partial(_on_connect, () if read_only else _WRITING))
        event.listen(engine, "begin", _on_begin)
        event.listen(engine, "handle_error", _on_error)
    return engine


def _reconnecting_connect() -> Callable[..., Any]:
    """How to connect: a server that was there once is waited for, `AWAY` seconds in all."""
    reached, away = False, 0.0  # when the server was first missed; 0: it was there last

    def connect(dialect: Dialect, _record: object, words: Sequence[Any], named: Mapping[str, Any]) -> DBAPIConnection:
        nonlocal reached, away
        said = False
        while True:
            try:
                made = dialect.connect(*words, **named)
            except dialect.loaded_dbapi.OperationalError as error:
                away = away or time.monotonic()
                if not reached or time.monotonic() - away > AWAY:
                    raise
                if not said:
                    log.warning("the database is away, and is waited for: %s", error)
                said = True
                time.sleep(_PAUSE)
            else:
                reached, away = True, 0.0
                return made

    return connect


def is_lost(error: DBAPIError) -> bool:
    """Whether the connection itself is gone: what was asked for last may have been committed or not."""
    return error.connection_invalidated or str(getattr(error.orig, "sqlstate", None)).startswith(_ENDED)


def is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def prepare(engine: Engine, *, read_only: bool = False) -> None:
    """Make the tables of a new database. Read-only, DataError if it holds no store.

    DataError on another schema version, on a file that is no database, and without the right to write.
    """
    try:
        if read_only:
            with engine.connect() as connection:
                if not _is_store(connection):
                    raise DataError(f"{name_of(engine)} holds no bestofq store: give another, or put back a copy")
            return
        with engine.execution_options(begin=_LOCKING).begin() as connection:  # several may begin at once
            if not is_sqlite(engine):
                connection.execute(select(sa.func.pg_advisory_xact_lock(_MAKING)))
            if not _is_store(connection):
                schema.METADATA.create_all(connection, checkfirst=False)
                connection.execute(schema.FACTS.insert().values(name="schema", value=str(schema.VERSION)))
    except DatabaseError as error:
        if not is_sqlite(engine) or (read_only and isinstance(error, OperationalError)):
            raise _unreachable(engine, error) from error
        problem = "holds no bestofq store" if read_only else "cannot be written"
        raise DataError(
            f"{name_of(engine)} {problem} ({error.orig}): give another folder, or put back a copy"
        ) from error


def _unreachable(engine: Engine, error: DatabaseError) -> SetupError:
    name, reason = name_of(engine), str(error.orig).strip().partition("\n")[0]
    if is_sqlite(engine):
        return SetupError(f"{name} cannot be read ({reason}): copy its folder, and read the copy")
    return SetupError(f"{name} cannot be used ({reason}): start the server, and check its host, user and database")


def check_lists(engine: Engine) -> None:
    """Raise DamageError if an index does not fit its table: a list of episodes, runs or verdicts may then lack one.
    Other damage is found when it is read."""
    with engine.connect() as connection:
        for table in (schema.EPISODES, schema.RUNS, schema.VERDICTS):
            if damage := find_file_damage(connection, table.name):
                raise damage_error(engine, f"a list ({damage})")


def find_file_damage(connection: Connection, what: str = "1") -> str:
    """Return SQLite's first fault in its file, or in the table `what`; "" without any, and of PostgreSQL."""
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
    """All of what is done in it or nothing, on a kept connection. PostgreSQL commits `one_statement` by itself."""
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


def read(engine: Engine, work: Callable[[Connection], T]) -> T:
    """What the work reads, again if the connection was lost in it. SetupError if server or file cannot be read."""
    for left in reversed(range(_TRIES)):
        try:
            with engine.connect() as connection:
                return work(connection)
        except OperationalError as error:
            if not (is_lost(error) and left):
                raise _unreachable(engine, error) from error
    raise AssertionError


def rows_of(engine: Engine, query: sa.Select[Any]) -> Sequence[Any]:
    """The rows, each a tuple whose columns have names."""
    return read(engine, lambda connection: connection.execute(query).all())


def scalar_of(engine: Engine, query: sa.Select[T]) -> T | None:
    """The first column of the first row; None without rows."""
    return read(engine, lambda connection: connection.scalar(query))


def damage_error(bind: Engine | Connection, what: str) -> DamageError:
    """Return the error for something in a store that is not what was written."""
    name = name_of(bind.engine)  # `--store` of SQLite is the file's folder
    return DamageError.of(f"{what} in {name}", str(Path(name).parent) if is_sqlite(bind.engine) else name)


def verify_rows(bind: Engine | Connection, table: Table, rows: Iterable[Row[Any]]) -> Iterator[Any]:
    """The rows, whose first columns are the table's. DamageError if these are not what was written."""
    count = len(table.c) - 1
    for row in rows:
        if checksum(row[:count]) != row[count]:
            named = ", ".join(f"{column.name} {row[i]}" for i, column in enumerate(table.c) if column.primary_key)
            raise damage_error(bind, f"a row of {table.name} ({named})")
        yield row


def lock_rows(connection: Connection, table: Table, *where: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    """Return the rows, by primary key, locked until the transaction ends. DamageError."""
    query = select(table).where(*where).order_by(*table.primary_key).with_for_update()
    return [row._asdict() for row in verify_rows(connection, table, connection.execute(query).all())]


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose primary key is not there yet; leave the others as they are."""
    if rows:
        connection.execute(_insert_new(connection.dialect.name, table), rows[0] if len(rows) == 1 else list(rows))


@cache
def _insert_new(dialect: str, table: Table) -> sa.Executable:
    statement: sa.Executable = (sqlite if dialect == "sqlite" else postgresql).insert(table).on_conflict_do_nothing()
    return statement


def replace(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    same = [column == row[column.name] for column in table.primary_key]
    connection.execute(sa.update(table).where(*same), schema.add_checksum(table, row))


def upsert(
    connection: Connection, table: Table, row: Mapping[str, Any], *, only: sa.ColumnElement[bool] | None = None
) -> bool:
    """Insert a row, or put it in the place of the one with its primary key, if that is such a one; whether it was."""
    query = (sqlite if is_sqlite(connection.engine) else postgresql).insert(table)
    others = {column.name: query.excluded[column.name] for column in table.c if not column.primary_key}
    query = query.on_conflict_do_update(index_elements=list(table.primary_key), set_=others, where=only)
    return connection.execute(query.execution_options(preserve_rowcount=True), row).rowcount == 1


def _is_store(connection: Connection) -> bool:
    """DataError if it is one of another schema version."""
    if not sa.inspect(connection).has_table(schema.FACTS.name):
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
    name = (is_sqlite(engine) and engine.url.database) or engine.url.render_as_string(hide_password=True)
    return unquote(urlsplit(name).path) if name.startswith("file:") else name


def _on_connect(journal: Sequence[str], dbapi: Any, _record: object) -> None:
    dbapi.isolation_level = None  # the driver begins no transaction of its own: `_on_begin` does
    cursor, last = dbapi.cursor(), time.monotonic() + _BUSY_MS / 1000
    left = [f"busy_timeout={_BUSY_MS}", *journal, "foreign_keys=ON", "cache_size=-32768"]
    while left:
        try:
            cursor.execute(f"PRAGMA {left[0]}")
            del left[0]
        except UnicodeDecodeError as error:  # a damaged name in SQLite's own message
            raise sqlite3.DatabaseError(error.object.decode(errors="replace")) from error
        except sqlite3.OperationalError as error:  # SQLite does not wait for another that turns a new file to WAL
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)
    cursor.close()


def _on_error(context: ExceptionContext) -> None:
    """A damaged file as a DamageError; what may pass (a lock, a full disk) as it is."""
    error, engine = context.original_exception, context.engine
    name = str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_")
    damage = isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError) and not _NO_DAMAGE.match(name)
    if damage and engine is not None:
        raise damage_error(engine, f"something ({error})") from error


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))
