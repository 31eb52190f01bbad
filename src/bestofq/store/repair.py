"""Find what is intact in a damaged store, and write a store of that."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sqlalchemy import Connection, Engine, Label, Table, event, insert, literal_column, select
from sqlalchemy.exc import DatabaseError

from bestofq.core.errors import DamageError, DataError
from bestofq.core.files import sync_folder
from bestofq.core.observation import Observation
from bestofq.store import claim, database
from bestofq.store.codec import checksum, content_key, unpack
from bestofq.store.files import Screenshots, open_files
from bestofq.store.location import Location
from bestofq.store.schema import FACTS, METADATA, PAGES, TASKS, WRITERS, add_checksum

_TABLES = [table for table in METADATA.sorted_tables if table not in (FACTS, WRITERS)]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]  # rows by the names of their tables


@dataclass(frozen=True, kw_only=True)
class Condition:
    """The intact and the damaged parts of a store."""

    file: str  # what the database says of its own file; empty if that is well
    kept: Tables  # what is as it was written, and so are the rows that it names
    lost: Mapping[str, int]  # by table: other rows
    episodes: tuple[str, ...]  # lost ones: their ids, with task and run where these can be read
    pictures: Mapping[PurePosixPath, str]  # damaged or missing ones, and an episode that shows each

    @property
    def intact(self) -> bool:
        return not self.file and not any(self.lost.values()) and not self.pictures


def examine(where: Location | Path | str) -> Condition:
    """Compare all of a store with what was written. DataError without a store, and if nothing of it can be read."""
    place = Location.of(where)
    files = open_files(place.where_files_are)
    problems: list[str] = []  # what SQLite says where it could not read
    with _engine(place) as engine:
        with suppress(DamageError):  # in the table of its version: the others are read
            database.prepare(engine, read_only=True)
        with engine.connect() as connection:
            read = {table.name: list(_rows(connection, table, problems)) for table in _TABLES}
            with suppress(DatabaseError, DamageError):
                problems += filter(None, [database.find_file_damage(connection)])
    problems += _find_definition_damage(place)
    kept = {table.name: [row for row in read[table.name] if _intact(table, row)] for table in _TABLES}
    if problems and not any(kept.values()):
        raise DataError(f"nothing of {place} can be recovered ({problems[0]}): put back a copy, or give another folder")
    whole = _whole(kept)
    names = {row["id"]: f"{row['id']} (task {row['task']} of run {row['run']})" for row in read["episodes"]}
    seen = names.keys() | {row["episode"] for row in kept["steps"]}
    for name, of in (("episodes", "id"), ("steps", "episode"), ("verdicts", "episode")):
        kept[name] = [row for row in kept[name] if row[of] in whole]
    return Condition(
        file=problems[0] if problems else "",
        kept=kept,
        lost={name: len(read[name]) - len(kept[name]) for name in read},
        episodes=tuple(sorted(names.get(episode, episode) for episode in seen - whole)),
        pictures=_pictures(Screenshots(files, place), kept),
    )


@contextmanager
def _engine(place: Location, *, strict: bool = False) -> Iterator[Engine]:
    """To read, unless `strict` past a damaged definition. DataError if a folder holds no database."""
    place.check_exists()
    engine = database.connect(database.url_of(place, read_only=True), read_only=True)
    if place.is_folder and not strict:  # SQLite then reads what is left of a file that was cut
        event.listen(engine, "connect", lambda plain, _: plain.execute("PRAGMA writable_schema=ON"), insert=True)
    try:
        yield engine
    finally:
        engine.dispose()


def _find_definition_damage(place: Location) -> Iterator[str]:
    """Yield what SQLite says of a damaged definition, which other commands do not read past."""
    if place.is_folder:
        try:
            with _engine(place, strict=True) as engine, engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1 FROM sqlite_master")
        except (DatabaseError, DamageError) as error:
            yield str(error.__cause__ or error)


@contextmanager
def unwritten(where: Location | Path | str) -> Iterator[Callable[[], None]]:
    """Yield a function that raises DataError if a process writes the store, or has written it since."""
    place = Location.of(where)
    if not place.is_folder or not place.database.is_file():
        yield lambda: None
        return
    with closing(sqlite3.connect(place.database, isolation_level=None)) as plain:
        before = _version(plain)

        def check() -> None:
            _refuse_written(place)
            if _version(plain) != before:
                raise DataError(f"{place} was written while it was compared: run the command again")

        yield check


def _version(plain: sqlite3.Connection) -> Any:
    """Return a number that every other connection's commit changes; None if the file cannot be read."""
    with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
        return plain.execute("PRAGMA data_version").fetchone()


def repair(where: Location | Path | str, condition: Condition, check: Callable[[], None] = lambda: None) -> Path:
    """Replace a damaged store with its intact parts, after `check` (`unwritten`). Return the damaged store's new place.

    Damaged pictures are renamed to `….damaged`. DataError if a process writes the store, and on PostgreSQL.
    """
    place = Location.of(where)
    if not place.is_folder:
        raise DataError(f"{place} is repaired by its own means: put back a backup of the database and of the files")
    file, folder, files = place.database, place.folder, open_files(place.where_files_are)
    new = file.with_name(f".{file.name}.part")
    aside = next(path for n in range(1, 10_000) if not (path := folder / f"{file.name}.damaged-{n}").exists())
    _refuse_written(place)
    new.unlink(missing_ok=True)
    engine = database.connect(database.sqlite_url(new))
    try:
        database.prepare(engine)
        with engine.begin() as connection:
            for table in _TABLES:
                if rows := [*condition.kept[table.name], *(_lost_runs(condition.kept) if table.name == "runs" else ())]:
                    connection.execute(insert(table), rows)
    finally:
        engine.dispose()
    with closing(sqlite3.connect(new)) as plain:
        plain.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    check()
    for suffix in ("-wal", "-shm", ""):
        beside = file.with_name(file.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    new.replace(file)
    sync_folder(folder)
    for name in map(str, condition.pictures):
        if files.has(name):
            files.set_aside(name)
    return aside


def _refuse_written(place: Location) -> None:
    with _engine(place) as engine, suppress(DatabaseError, DamageError):
        if claim.is_written(engine):
            raise DataError(f"{place} is being written: end that process, then run the command again")


def _rows(connection: Connection, table: Table, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield all readable rows: forwards, and backwards if a damaged page stops that. Add the reason to `problems`."""
    name = "rowid" if database.is_sqlite(connection.engine) else "ctid"
    number: Label[int] = literal_column(name).label("row_number")
    known: set[int] = set()
    for order in (number.asc(), number.desc()):
        try:
            for row in connection.execute(select(table, number).order_by(order)):
                if row.row_number not in known:
                    known.add(row.row_number)
                    yield {column.name: value for column, value in zip(table.c, row, strict=False)}
        except (DatabaseError, DamageError) as error:
            problems.append(f"{table.name}: {error.__cause__ or error}")
            continue
        return


def _intact(table: Table, row: Mapping[str, Any]) -> bool:
    if table in (TASKS, PAGES):
        return isinstance(row["body"], bytes) and content_key(row["body"]) == row["key"]
    *values, said = row.values()
    return bool(checksum(tuple(values)) == said)


def _whole(found: Tables) -> set[str]:
    """Return the episodes whose task, pages and steps are all there."""
    tasks, pages = ({row["key"] for row in found[name]} for name in ("tasks", "pages"))
    numbers: dict[str, list[int]] = {row["id"]: [] for row in found["episodes"]}
    for step in found["steps"]:
        if step["page_key"] in pages:
            numbers.setdefault(step["episode"], []).append(step["number"])
    whole = set()
    for row in found["episodes"]:
        steps = sorted(numbers[row["id"]])
        count = len(steps) if row["steps"] is None else row["steps"]
        if row["task_key"] in tasks and row["final_key"] in {None, *pages} and steps == list(range(count)):
            whole.add(row["id"])
    return whole


def _lost_runs(kept: Tables) -> Iterator[dict[str, Any]]:
    """Make rows for lost runs, so that their episodes can be read. Nothing can be added to them."""
    names = {row["run"] for name in ("episodes", "trees") for row in kept[name]} - {row["name"] for row in kept["runs"]}
    for name in sorted(names):
        row = {"name": name, "config": "{}", "config_hash": "lost", "provenance": '{"version":"lost"}'}
        yield add_checksum(METADATA.tables["runs"], row)


def _pictures(screenshots: Screenshots, kept: Tables) -> dict[PurePosixPath, str]:
    shows = {step["page_key"]: step["episode"] for step in kept["steps"]}
    shows |= {row["final_key"]: row["id"] for row in kept["episodes"] if row["final_key"] is not None}
    damaged: dict[PurePosixPath, str] = {}
    for row in kept["pages"]:
        if row["key"] in shows and (shot := unpack(Observation, row["body"]).screenshot) is not None:
            try:
                screenshots.load(shot)
            except DataError:
                damaged[screenshots.path(shot)] = shows[row["key"]]
    return damaged
