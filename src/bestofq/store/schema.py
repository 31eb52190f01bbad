"""The tables, the same in SQLite and PostgreSQL. A step is one row; the pages and tasks that many rows share are stored
once, by their content.

An episode is an attempt at a slot (run, agent, suite, task, repeat). Its owner is the writer that plays it. The
database refuses a second finished attempt at a slot (`episodes_once`) and a second running one (`episodes_running`). A
tree has an owner too, and only that replaces it.

What is read is compared with what was written: tasks and pages by their keys, other rows by a checksum over their
columns. Lists of episodes are not: they read a few columns of up to 100,000 rows. A finished episode stores the number
of its steps.
"""

from collections.abc import Mapping
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, Table, Text
from sqlalchemy.dialects import postgresql

from bestofq.store.codec import checksum

Status = Literal["running", "finished", "cut", "interrupted"]
"""running: steps still come; finished: has its verdict; cut: by the infrastructure; interrupted: its process died."""
VERSION = 5
METADATA = sa.MetaData()
NAME = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""A text that is sorted by: by its bytes, in each database."""


def _checksum() -> Column[int]:
    return Column("checksum", BigInteger, nullable=False)


def add_checksum(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its checksum, and NULL for what it does not name."""
    *columns, last = table.c
    whole = {column.name: row.get(column.name) for column in columns}
    return whole | {last.name: checksum(tuple(whole.values()))}


FACTS = Table("facts", METADATA, Column("name", NAME, primary_key=True), Column("value", Text, nullable=False))

WRITERS = Table(  # the processes that write now (`claim.py`)
    "writers",
    METADATA,
    Column("token", NAME, primary_key=True),
    Column("process", Text, nullable=False),
    Column("beat", Float, nullable=False),  # its last sign of life, in seconds of the database's clock
)

RUNS = Table(
    "runs",
    METADATA,
    Column("name", NAME, primary_key=True),
    Column("config", Text, nullable=False),  # JSON, keys sorted
    Column("config_hash", NAME, nullable=False),
    Column("provenance", Text, nullable=False),  # JSON of Provenance
    _checksum(),
)

TASKS, PAGES = (  # packed Tasks and Observations, by the content hash of `body`
    Table(name, METADATA, Column("key", LargeBinary(16), primary_key=True), Column("body", LargeBinary, nullable=False))
    for name in ("tasks", "pages")
)

EPISODES = Table(
    "episodes",
    METADATA,
    Column("id", NAME, primary_key=True),
    Column("run", ForeignKey("runs.name"), nullable=False),
    Column("agent", NAME, nullable=False),
    Column("suite", NAME, nullable=False),
    Column("split", NAME, nullable=False),
    Column("task", NAME, nullable=False),  # Task.id
    Column("repeat", Integer, nullable=False),
    Column("status", NAME, nullable=False),  # Status
    Column("task_key", ForeignKey("tasks.key"), nullable=False),
    Column("provenance", Text, nullable=False),  # JSON of Provenance
    Column("started_at", NAME, nullable=False),  # ISO 8601, UTC
    Column("ended_at", NAME),
    Column("final_key", ForeignKey("pages.key")),
    Column("verdict", Text),  # JSON of Verdict
    Column("outcome", NAME),  # the verdict's
    Column("steps", Integer),  # how many; NULL while it runs
    Column("checkpoint", NAME),  # the Q-function that scored the first step; NULL while it runs, and where none did
    Column("owner", NAME),  # WRITERS.token of who plays it, or did last; NULL: added whole
    _checksum(),
)
_FINISHED, _RUNNING = EPISODES.c.status == "finished", EPISODES.c.status == "running"
_SLOT = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.suite, EPISODES.c.task, EPISODES.c.repeat)
Index("episodes_once", *_SLOT, unique=True, sqlite_where=_FINISHED, postgresql_where=_FINISHED)
Index("episodes_running", *_SLOT, unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING)
Index("episodes_by_run", EPISODES.c.run, EPISODES.c.agent, EPISODES.c.status)
Index("episodes_by_task", EPISODES.c.suite, EPISODES.c.task)
Index("episodes_by_start", EPISODES.c.started_at, EPISODES.c.id)

STEPS = Table(
    "steps",
    METADATA,
    Column("episode", ForeignKey("episodes.id"), primary_key=True),
    Column("number", Integer, primary_key=True),  # Step.index
    Column("page_key", ForeignKey("pages.key"), nullable=False),
    Column("reward", Float, nullable=False),
    Column("terminated", sa.Boolean, nullable=False),
    Column("truncated", sa.Boolean, nullable=False),
    Column("decision", LargeBinary, nullable=False),  # packed Decision: ALL candidates and their scores
    _checksum(),
)

VERDICTS = Table(  # of judges; the verdict in force is `EPISODES.c.verdict`
    "verdicts",
    METADATA,
    Column("episode", ForeignKey("episodes.id"), primary_key=True),
    Column("judge", NAME, primary_key=True),  # Verdict.judge
    Column("verdict", Text, nullable=False),  # JSON of Verdict
    Column("judged_at", NAME, nullable=False),  # ISO 8601, UTC
    _checksum(),
)

TREES = Table(  # of searches
    "trees",
    METADATA,
    Column("run", ForeignKey("runs.name"), primary_key=True),
    Column("suite", NAME, primary_key=True),
    Column("task", NAME, primary_key=True),  # Task.id
    Column("repeat", Integer, primary_key=True),
    Column("rollouts", Integer, nullable=False),  # so far
    Column("saved_at", NAME, nullable=False),  # ISO 8601, UTC
    Column("owner", NAME),  # WRITERS.token of who grows it; NULL: nobody
    Column("body", LargeBinary, nullable=False),  # packed SearchTree
    _checksum(),
)

VECTORS = Table(
    "vectors",
    METADATA,
    Column("spec", NAME, primary_key=True),  # EmbedSpec.hash
    Column("key", NAME, primary_key=True),  # EmbedItem.key
    Column("body", LargeBinary, nullable=False),  # float32, little-endian
    _checksum(),
)
