"""Search trees, each kept as a whole after every rollout, so that a search continues where its process ended."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, delete, insert, select

from bestofq.core.tree import SearchTree
from bestofq.store.codec import pack, unpack
from bestofq.store.records import EpisodeKey, TreeSummary
from bestofq.store.schema import TREES
from bestofq.store.writer import Writer


class Trees:
    """The trees of runs that were begun: one for each (run, suite, task, repeat)."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    async def save(self, run: str, tree: SearchTree, *, repeat: int = 0) -> None:
        """Commit a tree in the place of its earlier state."""
        key = {"run": run, "suite": tree.task.suite, "task": tree.task.id, "repeat": repeat}
        row = {**key, "rollouts": tree.visits[0], "body": pack(tree), "saved_at": datetime.now(UTC).isoformat()}

        def replace(connection: Connection) -> None:
            connection.execute(delete(TREES).filter_by(**key))
            connection.execute(insert(TREES), row)

        await self._writer.commit(replace)

    def load(self, run: str, suite: str, task: str, *, repeat: int = 0) -> SearchTree | None:
        """One tree as it was last saved; None where it was not begun."""
        found = self._rows(select(TREES.c.body).filter_by(run=run, suite=suite, task=task, repeat=repeat))
        return unpack(SearchTree, found[0].body) if found else None

    def all(self, run: str) -> Iterator[SearchTree]:
        """The trees of a run, by suite, task and repeat."""
        for row in self._rows(select(TREES.c.body).filter_by(run=run).order_by(*TREES.primary_key)):
            yield unpack(SearchTree, row.body)

    def summaries(
        self, *, run: str | None = None, suite: str | None = None, task: str | None = None
    ) -> list[TreeSummary]:
        """Which trees there are, by run, suite, task and repeat."""
        wanted = {key: name for key, name in {"run": run, "suite": suite, "task": task}.items() if name is not None}
        query = select(*TREES.primary_key, TREES.c.rollouts, TREES.c.saved_at).filter_by(**wanted)
        return [
            TreeSummary(
                run=row.run,
                key=EpisodeKey(row.suite, row.task, row.repeat),
                rollouts=row.rollouts,
                saved_at=row.saved_at,
            )
            for row in self._rows(query.order_by(*TREES.primary_key))
        ]

    def _rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()
