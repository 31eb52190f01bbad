"""Search trees, each kept as a whole after every rollout, so that a search goes on where its process ended."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, and_, delete, insert, inspect, select

from bestofq.core.errors import DataError
from bestofq.core.tree import SearchTree
from bestofq.store.codec import pack, unpack
from bestofq.store.records import EpisodeKey, TreeSummary
from bestofq.store.schema import TREES
from bestofq.store.writer import Writer


class Trees:
    """The trees of runs that were begun: one for each (run, suite, task, repeat)."""

    def __init__(self, engine: Engine, writer: Writer | None) -> None:
        self._engine = engine
        self._writer = writer

    async def save(self, run: str, tree: SearchTree, *, repeat: int = 0) -> None:
        """Commit a tree in the place of its earlier state."""
        if self._writer is None:
            raise DataError(f"{self._engine.url.database} was opened read-only: open it for writing")
        key = {"run": run, "suite": tree.task.suite, "task": tree.task.id, "repeat": repeat}
        row = {**key, "rollouts": tree.visits[0], "body": pack(tree), "saved_at": datetime.now(UTC).isoformat()}

        def replace(connection: Connection) -> None:
            connection.execute(delete(TREES).where(and_(*(TREES.c[name] == value for name, value in key.items()))))
            connection.execute(insert(TREES), row)

        await asyncio.wrap_future(self._writer.submit(replace))

    def load(self, run: str, suite: str, task: str, *, repeat: int = 0) -> SearchTree | None:
        """One tree as it was last saved; None where it was not begun."""
        key = {"run": run, "suite": suite, "task": task, "repeat": repeat}
        found = self._bodies(select(TREES.c.body).where(and_(*(TREES.c[name] == v for name, v in key.items()))))
        return unpack(SearchTree, found[0]) if found else None

    def all(self, run: str) -> Iterator[SearchTree]:
        """The trees of a run, by suite, task and repeat."""
        keys = (TREES.c.suite, TREES.c.task, TREES.c.repeat)
        for body in self._bodies(select(TREES.c.body).where(TREES.c.run == run).order_by(*keys)):
            yield unpack(SearchTree, body)

    def summaries(
        self, *, run: str | None = None, suite: str | None = None, task: str | None = None
    ) -> list[TreeSummary]:
        """Which trees there are, by run, suite, task and repeat."""
        query = select(TREES.c.run, TREES.c.suite, TREES.c.task, TREES.c.repeat, TREES.c.rollouts, TREES.c.saved_at)
        for column, value in ((TREES.c.run, run), (TREES.c.suite, suite), (TREES.c.task, task)):
            if value is not None:
                query = query.where(column == value)
        query = query.order_by(TREES.c.run, TREES.c.suite, TREES.c.task, TREES.c.repeat)
        with self._engine.connect() as connection:
            if not inspect(connection).has_table(TREES.name):
                return []
            return [
                TreeSummary(
                    run=r.run, key=EpisodeKey(r.suite, r.task, r.repeat), rollouts=r.rollouts, saved_at=r.saved_at
                )
                for r in connection.execute(query)
            ]

    def _bodies(self, query: object) -> list[bytes]:
        with self._engine.connect() as connection:
            if not inspect(connection).has_table(TREES.name):
                return []
            return list(connection.scalars(query))  # type: ignore[call-overload]
