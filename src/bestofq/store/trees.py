"""Search trees, each kept as a whole after every rollout, so that a search continues after a kill.

A tree has an owner while it grows. The statement that saves it refuses every other process: of two processes that
search a task at once, one continues, and the other loses its current rollout.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, Engine, select, tuple_

from bestofq.core.errors import SupersededError
from bestofq.core.observation import Task
from bestofq.core.tree import SearchTree
from bestofq.store.claim import bury
from bestofq.store.codec import pack, text_of, unpack
from bestofq.store.database import lock_rows, replace, rows_of, upsert, verify_rows
from bestofq.store.schema import TREES, add_checksum
from bestofq.store.writer import Writer

_KEY = (TREES.c.run, TREES.c.suite, TREES.c.task)


class TreeSummary(NamedTuple):
    """A search tree without its nodes."""

    run: str
    suite: str
    task: str
    rollouts: int
    saved_at: str  # ISO 8601, UTC


@dataclass(frozen=True)
class Trees:
    """The trees of runs that were begun: one for each (run, suite, task). Their column `repeat` is 0."""

    _engine: Engine
    _writer: Writer

    @asynccontextmanager
    async def grow_tree(self, run: str, task: Task) -> AsyncIterator[SearchTree | None]:
        """Yield the tree as it was last saved, or None. Only this process saves it until the context ends.

        SupersededError if another living process grows it.
        """
        key = [column == value for column, value in zip(_KEY, (run, task.suite, task.id), strict=True)]

        def set_owner(connection: Connection, owner: str | None) -> bytes | None:
            for row in lock_rows(connection, TREES, *key):
                if row["owner"] not in (None, self._writer.token) and row["owner"] in bury(connection):
                    raise _superseded_error(task)
                replace(connection, TREES, {**row, "owner": owner})
                return bytes(row["body"])
            return None

        body = await self._writer.commit(lambda connection: set_owner(connection, self._writer.token))
        try:
            yield None if body is None else unpack(SearchTree, body)
        finally:
            with suppress(SupersededError):
                await self._writer.commit(lambda connection: set_owner(connection, None))

    async def save(self, run: str, tree: SearchTree) -> None:
        """Commit a tree instead of its earlier state. SupersededError if another process grows it."""
        key = {"run": run, "suite": tree.task.suite, "task": tree.task.id, "repeat": 0}
        saved = {"rollouts": tree.visits[0], "body": pack(tree), "saved_at": datetime.now(UTC).isoformat()}
        row = add_checksum(TREES, key | saved | {"owner": self._writer.token})

        def put(connection: Connection) -> None:
            if not upsert(connection, TREES, row, only=TREES.c.owner == row["owner"]):
                raise _superseded_error(tree.task)

        await self._writer.commit(put)

    def load(self, run: str, suite: str, task: str) -> SearchTree | None:
        """Return one tree as it was last saved; None before its search. DamageError."""
        return next(self.all(run, suite=suite, task=task), None)

    def all(self, run: str, **which: str) -> Iterator[SearchTree]:
        """Return the trees of a run, by suite and task. DamageError."""
        query = select(TREES).filter_by(run=run, **which).order_by(*_KEY)
        return (unpack(SearchTree, row.body) for row in verify_rows(self._engine, TREES, rows_of(self._engine, query)))

    def summaries(self, **which: str | None) -> list[TreeSummary]:
        """List the trees by run, suite and task, or those of a `run`, `suite` and `task`."""
        wanted = {name: value for name, value in which.items() if value is not None}
        query = select(*_KEY, TREES.c.rollouts, TREES.c.saved_at).filter_by(**wanted).order_by(*_KEY)
        return [*map(TreeSummary._make, rows_of(self._engine, query))]

    def goals(self, trees: Sequence[TreeSummary]) -> dict[TreeSummary, str]:
        keys = {(tree.run, tree.suite, tree.task): tree for tree in trees}
        query = select(*_KEY, TREES.c.body).where(tuple_(*_KEY).in_([*keys]))
        return {keys[*key]: json.loads(text_of(body))["task"]["goal"] for *key, body in rows_of(self._engine, query)}


def _superseded_error(task: Task) -> SupersededError:
    return SupersededError(f"another process grows the tree of task {task.id}: what that one saves counts")
