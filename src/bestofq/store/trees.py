"""Search trees, each kept as a whole after every rollout, so that a search continues where its process ended."""

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Engine, select

from bestofq.core.tree import SearchTree
from bestofq.store.codec import pack, unpack
from bestofq.store.database import rows_of, upsert, verified
from bestofq.store.records import EpisodeKey, TreeSummary
from bestofq.store.schema import TREES, sealed
from bestofq.store.writer import Writer


class Trees:
    """The trees of runs that were begun: one for each (run, suite, task, repeat)."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    async def save(self, run: str, tree: SearchTree, *, repeat: int = 0) -> None:
        """Commit a tree in the place of its earlier state."""
        key = {"run": run, "suite": tree.task.suite, "task": tree.task.id, "repeat": repeat}
        saved = {"rollouts": tree.visits[0], "body": pack(tree), "saved_at": datetime.now(UTC).isoformat()}
        row = sealed(TREES, key | saved)
        await self._writer.commit(lambda connection: upsert(connection, TREES, row))

    def load(self, run: str, suite: str, task: str, repeat: int = 0) -> SearchTree | None:
        """One tree as it was last saved; None where it was not begun. DamageError."""
        return next(self._read(run=run, suite=suite, task=task, repeat=repeat), None)

    def all(self, run: str) -> Iterator[SearchTree]:
        """The trees of a run, by suite, task and repeat. DamageError."""
        return self._read(run=run)

    def _read(self, **which: str | int) -> Iterator[SearchTree]:
        query = select(TREES).filter_by(**which).order_by(*TREES.primary_key)
        return (unpack(SearchTree, row.body) for row in verified(self._engine, TREES, rows_of(self._engine, query)))

    def summaries(
        self, *, run: str | None = None, suite: str | None = None, task: str | None = None
    ) -> list[TreeSummary]:
        """Which trees there are, by run, suite, task and repeat."""
        wanted = {key: name for key, name in {"run": run, "suite": suite, "task": task}.items() if name is not None}
        query = select(*TREES.primary_key, TREES.c.rollouts, TREES.c.saved_at).filter_by(**wanted)
        found = rows_of(self._engine, query.order_by(*TREES.primary_key))
        return [TreeSummary(run, EpisodeKey(*key), rollouts, saved_at) for run, *key, rollouts, saved_at in found]
