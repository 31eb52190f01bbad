"""The tables. A step is one row; the pages and tasks that many rows share are stored once, by their content.

`episodes_once` makes the database itself refuse a second finished episode of one (run, agent, suite, task, repeat).
What is read is compared with what was written: tasks and pages by their keys, all other rows by a checksum over their
columns, the last of each. A finished episode tells how many steps it has.
"""

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

from bestofq.store.codec import checksum

Status = Literal["running", "finished", "cut", "interrupted"]
"""running: steps still come; finished: has its verdict; cut: by the infrastructure; interrupted: its process died."""
VERSION = 2
METADATA = MetaData()


def _checksum() -> Column[int]:
    return Column("checksum", Integer, nullable=False)


def sealed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its checksum, and NULL for what it does not name."""
    *columns, last = table.c
    whole = {column.name: row.get(column.name) for column in columns}
    return whole | {last.name: checksum(tuple(whole.values()))}


FACTS = Table("facts", METADATA, Column("name", String(40), primary_key=True), Column("value", Text, nullable=False))

RUNS = Table(
    "runs",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("config", Text, nullable=False),  # JSON, keys sorted
    Column("config_hash", String(16), nullable=False),
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
    Column("id", String(32), primary_key=True),
    Column("run", ForeignKey("runs.name"), nullable=False),
    Column("agent", String(200), nullable=False),
    Column("suite", String(200), nullable=False),
    Column("split", String(10), nullable=False),
    Column("task", String(200), nullable=False),  # Task.id
    Column("repeat", Integer, nullable=False),
    Column("status", String(12), nullable=False),  # Status
    Column("task_key", ForeignKey("tasks.key"), nullable=False),
    Column("provenance", Text, nullable=False),  # JSON of Provenance
    Column("started_at", String(32), nullable=False),  # ISO 8601, UTC
    Column("ended_at", String(32)),
    Column("final_key", ForeignKey("pages.key")),
    Column("verdict", Text),  # JSON of Verdict
    Column("steps", Integer),  # how many; NULL while it runs
    _checksum(),
)
_FINISHED = EPISODES.c.status == "finished"
_SLOT = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.suite, EPISODES.c.task, EPISODES.c.repeat)
Index("episodes_once", *_SLOT, unique=True, sqlite_where=_FINISHED, postgresql_where=_FINISHED)
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
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("decision", LargeBinary, nullable=False),  # packed Decision: ALL candidates and their scores
    _checksum(),
)

VERDICTS = Table(  # of judges, beside the verdict in force: `EPISODES.c.verdict`
    "verdicts",
    METADATA,
    Column("episode", ForeignKey("episodes.id"), primary_key=True),
    Column("judge", String(200), primary_key=True),  # Verdict.judge
    Column("verdict", Text, nullable=False),  # JSON of Verdict
    Column("judged_at", String(32), nullable=False),  # ISO 8601, UTC
    _checksum(),
)

TREES = Table(  # of searches
    "trees",
    METADATA,
    Column("run", ForeignKey("runs.name"), primary_key=True),
    Column("suite", String(200), primary_key=True),
    Column("task", String(200), primary_key=True),  # Task.id
    Column("repeat", Integer, primary_key=True),
    Column("rollouts", Integer, nullable=False),  # so far
    Column("saved_at", String(32), nullable=False),  # ISO 8601, UTC
    Column("body", LargeBinary, nullable=False),  # packed SearchTree
    _checksum(),
)

VECTORS = Table(
    "vectors",
    METADATA,
    Column("spec", String(16), primary_key=True),  # EmbedSpec.hash
    Column("key", String(32), primary_key=True),  # EmbedItem.key
    Column("body", LargeBinary, nullable=False),  # float32, little-endian
    _checksum(),
)
