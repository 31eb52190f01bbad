"""A checksum a row, the number of steps of an episode that has ended; search trees and judges' verdicts."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, Text

from bestofq.store.migrating import seal

revision, down_revision = "2", "1"

EPISODES = (
    *("id", "run", "agent", "suite", "split", "task", "repeat", "status", "task_key", "provenance"),
    *("started_at", "ended_at", "final_key", "verdict", "steps"),
)
_STEPS = ("episode", "number", "page_key", "reward", "terminated", "truncated", "decision")


def upgrade() -> None:
    op.add_column("episodes", Column("steps", Integer))
    op.execute("UPDATE episodes SET steps = (SELECT count(*) FROM steps WHERE episode = id) WHERE status <> 'running'")
    for name in ("runs", "episodes", "steps", "vectors"):
        op.add_column(name, Column("checksum", BigInteger, nullable=False, server_default="0"))
    seal(op.get_bind(), "runs", ("name", "config", "config_hash", "provenance"))
    seal(op.get_bind(), "episodes", EPISODES)
    seal(op.get_bind(), "steps", _STEPS, keys=2)
    seal(op.get_bind(), "vectors", ("spec", "key", "body"), keys=2)
    op.create_table(
        "verdicts",
        Column("episode", Text, ForeignKey("episodes.id"), primary_key=True),
        Column("judge", Text, primary_key=True),
        Column("verdict", Text, nullable=False),
        Column("judged_at", Text, nullable=False),
        Column("checksum", BigInteger, nullable=False),
    )
    op.create_table(
        "trees",
        Column("run", Text, ForeignKey("runs.name"), primary_key=True),
        Column("suite", Text, primary_key=True),
        Column("task", Text, primary_key=True),
        Column("repeat", Integer, primary_key=True),
        Column("rollouts", Integer, nullable=False),
        Column("saved_at", Text, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("checksum", BigInteger, nullable=False),
    )
    op.create_index("episodes_by_task", "episodes", ["suite", "task"])
    op.create_index("episodes_by_start", "episodes", ["started_at", "id"])
    op.execute("UPDATE facts SET value = '2' WHERE name = 'schema'")
