"""Brings a store from one schema version to the next."""

from collections.abc import Sequence
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Boolean, Connection, bindparam, column, select, table

from bestofq.store.codec import checksum

HERE = Path(__file__).parent / "migrations"
_A_BATCH, _YES_OR_NO = 1000, ("terminated", "truncated")


def upgrade(connection: Connection, found: str) -> None:
    """Bring the tables from the version `found` to the newest, within the connection's transaction. KeyError where
    there is no way from there."""
    scripts = ScriptDirectory(str(HERE), version_locations=[str(HERE)])
    steps = {one.revision: one for one in scripts.walk_revisions()}
    steps[found]
    context = MigrationContext.configure(
        connection, opts={"fn": lambda _current, _context: scripts._upgrade_revs("head", found)}
    )
    context.stamp(scripts, found)
    with Operations.context(context):
        context.run_migrations()


def seal(connection: Connection, name: str, columns: Sequence[str], *, keys: int = 1) -> None:
    """Compute the checksum of each row of a table over these columns, the first `keys` of which are its key."""
    kept = table(name, *(column(one, Boolean() if one in _YES_OR_NO else None) for one in (*columns, "checksum")))
    own = columns[:keys]
    put = kept.update().where(*(kept.c[one] == bindparam(f"old_{one}") for one in own))
    put = put.values(checksum=bindparam("new"))
    rows = connection.execute(select(*(kept.c[one] for one in columns)))
    while some := rows.fetchmany(_A_BATCH):
        named = [{f"old_{one}": row._mapping[one] for one in own} | {"new": checksum(tuple(row))} for row in some]
        connection.execute(put, named)
