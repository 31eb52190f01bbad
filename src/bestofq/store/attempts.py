"""Attempts at slots: each running one has an owner, and the database refuses steps from everybody else.

One statement locks the episode's row and inserts the step, if the episode is running and is the writer's own. So a
writer that seemed dead, and whose episode was taken over, can commit nothing more to it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, literal_column, or_, select, true
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import IntegrityError

from bestofq.core.decision import Decision
from bestofq.core.errors import SupersededError
from bestofq.store.claim import bury
from bestofq.store.codec import unpack
from bestofq.store.database import insert_new, is_sqlite, lock_rows, replace
from bestofq.store.records import EpisodeFilter
from bestofq.store.schema import EPISODES, PAGES, STEPS, add_checksum

_RUNNING: ColumnElement[str] = literal_column("'running'")
_OURS = (EPISODES.c.id == bindparam("episode"), EPISODES.c.status == _RUNNING, EPISODES.c.owner == bindparam("by"))
_ROW = select(*(bindparam(column.name, type_=column.type) for column in STEPS.c)).where(*_OURS)
_HELD = _ROW.with_for_update(read=True, of=EPISODES)
_APPENDED = insert(STEPS).from_select(list(STEPS.c), _HELD).execution_options(preserve_rowcount=True)
_ONCE = postgresql.insert(STEPS).from_select(list(STEPS.c), _HELD).on_conflict_do_nothing()
_SAME = (STEPS.c[name] == bindparam(f"own_{name}") for name in ("number", "checksum"))
_THERE = select(STEPS.c.number).where(*_OURS, STEPS.c.episode == EPISODES.c.id, *_SAME)
_PAGE = postgresql.insert(PAGES).values(key=bindparam("page_key"), body=bindparam("page_body"))
_APPENDED_WITH_PAGE = str(  # as text: to compile it costs more than to execute it
    _ONCE.add_cte(_PAGE.on_conflict_do_nothing().cte("page")).compile(dialect=PGDialect_psycopg())  # type: ignore[no-untyped-call]
)
_SLOT = ("run", "agent", "suite", "task", "repeat")


def begin(connection: Connection, row: Mapping[str, Any], owner: str) -> None:
    """Insert a running episode of this owner, and mark an earlier attempt that was left running as `interrupted`.
    SupersededError if another living writer plays the slot, or has finished it."""
    slot = (EPISODES.c[name] == row[name] for name in _SLOT)
    task = f"task {row['task']} (run {row['run']}, agent {row['agent']}, repeat {row['repeat']})"
    for before in lock_rows(connection, EPISODES, *slot, EPISODES.c.status.in_(("running", "finished"))):
        if before["id"] == row["id"]:
            return  # it was committed, and the answer was lost
        if before["status"] == "finished":
            raise SupersededError(f"{task} is finished already, by episode {before['id']}")
        if before["owner"] in bury(connection) - {owner}:
            raise SupersededError(f"{task} is being played by another process: let it end")
        interrupt(connection, before)
    try:
        connection.execute(insert(EPISODES), add_checksum(EPISODES, {**row, "status": "running", "owner": owner}))
    except IntegrityError as error:
        raise SupersededError(f"{task} has just been begun by another process: let it end") from error


def append(connection: Connection, row: Mapping[str, Any], page: bytes, owner: str) -> None:
    """Insert a step of this owner's episode with its packed page, in PostgreSQL by one statement. SupersededError."""
    if is_sqlite(connection.engine):
        insert_new(connection, PAGES, [{"key": row["page_key"], "body": page}])
        done = connection.execute(_APPENDED, {**row, "by": owner})
    else:
        done = connection.exec_driver_sql(_APPENDED_WITH_PAGE, {**row, "by": owner, "page_body": page})
    if done.rowcount != 1:
        same = {"episode": row["episode"], "by": owner, "own_number": row["number"], "own_checksum": row["checksum"]}
        if connection.scalar(_THERE, same) is None:  # else it was committed, and the answer was lost
            raise superseded_error(row["episode"])


def superseded_error(episode: object) -> SupersededError:
    return SupersededError(
        f"episode {episode} is not being played by this process (any more): what was committed before is kept"
    )


def take_over(
    connection: Connection, run: str, agent: str, owner: str, only: Collection[str] | None, *, end: bool = False
) -> list[str]:
    """Give this owner the episodes that run without another living writer, `only` those of these ids. Return their
    ids. `end`: mark them as `interrupted` instead."""
    mine = or_(EPISODES.c.owner.is_(None), EPISODES.c.owner.not_in(bury(connection) - {owner}))
    named = true() if only is None else EPISODES.c.id.in_(only)
    running = EpisodeFilter(run=run, agent=agent, status="running").clauses
    rows = lock_rows(connection, EPISODES, *running, mine, named)
    for row in rows:
        if end:
            interrupt(connection, row)
        else:
            replace(connection, EPISODES, row | {"owner": owner})
    return [row["id"] for row in rows]


def interrupt(connection: Connection, row: Mapping[str, Any]) -> None:
    """Mark an episode as `interrupted`. Its steps stay."""
    replace(connection, EPISODES, {**row, "status": "interrupted", **summarize_steps(connection, row["id"])})


def summarize_steps(connection: Connection, episode: str) -> dict[str, Any]:
    """Return the columns of an ended episode that depend on its steps."""
    own = STEPS.c.episode == episode
    first = select(STEPS.c.decision).where(own, STEPS.c.number == 0).scalar_subquery()
    steps, decision = connection.execute(select(func.count(), first).where(own)).one()
    return {"steps": steps, "checkpoint": decision and unpack(Decision, decision).checkpoint}
