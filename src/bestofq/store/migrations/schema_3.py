"""Owners of running episodes, of which a slot has one at most; shards of vectors."""

from alembic import op
from sqlalchemy import BigInteger, Column, Float, Text, text

from bestofq.store.migrating import seal
from bestofq.store.migrations import schema_2

revision, down_revision = "3", "2"

_SLOT = ("run", "agent", "suite", "task", "repeat")


def upgrade() -> None:
    for name in ("outcome", "owner"):
        op.add_column("episodes", Column(name, Text))
    op.execute("UPDATE episodes SET outcome = json_extract(verdict, '$.outcome')")
    same = " AND ".join(f"later.{name} = episodes.{name}" for name in _SLOT)
    op.execute(
        "UPDATE episodes SET status = 'interrupted', steps = (SELECT count(*) FROM steps WHERE episode = episodes.id) "
        "WHERE status = 'running' AND EXISTS (SELECT 1 FROM episodes AS later WHERE later.status = 'running' "
        f"AND {same} AND (later.started_at, later.id) > (episodes.started_at, episodes.id))"
    )
    running = text("status = 'running'")
    op.create_index(
        "episodes_running", "episodes", [*_SLOT], unique=True, sqlite_where=running, postgresql_where=running
    )
    seal(op.get_bind(), "episodes", (*schema_2.EPISODES[:-1], "outcome", "steps", "owner"))
    op.create_table(
        "writers",
        Column("token", Text, primary_key=True),
        Column("process", Text, nullable=False),
        Column("beat", Float, nullable=False),
    )
    op.create_table(
        "shards",
        Column("spec", Text, primary_key=True),
        Column("key", Text, primary_key=True),
        Column("file", Text, nullable=False),
        Column("place", BigInteger, nullable=False),
        Column("body_checksum", BigInteger, nullable=False),
        Column("checksum", BigInteger, nullable=False),
    )
    op.execute("DELETE FROM facts WHERE name = 'writer'")
    op.execute("UPDATE facts SET value = '3' WHERE name = 'schema'")
