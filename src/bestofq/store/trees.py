"""Search trees, each kept as a whole after every rollout, so that a search continues where its process ended.

A tree has an owner while it grows, and is saved by nobody else, which the statement that saves it sees to: of two
processes that search a task at once one goes on, and the other loses the rollout that it was at.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, select, tuple_

from bestofq.core.errors import SupersededError
from bestofq.core.observation import Task
from bestofq.core.tree import SearchTree
from bestofq.store.claim import bury
from bestofq.store.codec import pack, text_of, unpack
from bestofq.store.database import replace, rows_of, upsert, verify_rows
from bestofq.store.records import TreeSummary
from bestofq.store.schema import TREES, add_checksum
from bestofq.store.writer import Writer

_KEY = (TREES.c.run, TREES.c.suite, TREES.c.task)
_TASK = 20_000  # bytes of a tree that hold its task


class Trees:
    """The trees of runs that were begun: one for each (run, suite, task). Their column `repeat` is 0."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    @asynccontextmanager
    async def grow_tree(self, run: str, task: Task) -> AsyncIterator[SearchTree | None]:
        """The tree as it was last saved, None without one; until the context ends only this process saves it. What it
        holds is nobody's then. SupersededError where another living process grows it."""
        own = self._writer.token
        query = select(TREES).filter_by(run=run, suite=task.suite, task=task.id).with_for_update()

        def give(connection: Connection, owner: str | None) -> bytes | None:
            for row in verify_rows(connection, TREES, connection.execute(query).all()):
                if row.owner not in (None, own) and row.owner in bury(connection):
                    raise _superseded_error(task)
                replace(connection, TREES, {**row._asdict(), "owner": owner})
                return bytes(row.body)
            return None

        body = await self._writer.commit(lambda connection: give(connection, own))
        try:
            yield None if body is None else unpack(SearchTree, body)
        finally:
            with suppress(SupersededError):
                await self._writer.commit(lambda connection: give(connection, None))

    async def save(self, run: str, tree: SearchTree) -> None:
        """Commit a tree in the place of its earlier state. SupersededError where that is not this process's, which is
        whose `growing` it is, or who saved it first."""
        key = {"run": run, "suite": tree.task.suite, "task": tree.task.id, "repeat": 0}
        saved = {"rollouts": tree.visits[0], "body": pack(tree), "saved_at": datetime.now(UTC).isoformat()}
        row = add_checksum(TREES, key | saved | {"owner": self._writer.token})

        def put(connection: Connection) -> None:
            if not upsert(connection, TREES, row, only=TREES.c.owner == row["owner"]):
                raise _superseded_error(tree.task)

        await self._writer.commit(put)

    def load(self, run: str, suite: str, task: str) -> SearchTree | None:
        """One tree as it was last saved; None where it was not begun. DamageError."""
        return next(self._read(run=run, suite=suite, task=task), None)

    def all(self, run: str) -> Iterator[SearchTree]:
        """The trees of a run, by suite and task. DamageError."""
        return self._read(run=run)

    def _read(self, **which: str) -> Iterator[SearchTree]:
        query = select(TREES).filter_by(**which).order_by(*_KEY)
        return (unpack(SearchTree, row.body) for row in verify_rows(self._engine, TREES, rows_of(self._engine, query)))

    def summaries(
        self, *, run: str | None = None, suite: str | None = None, task: str | None = None
    ) -> list[TreeSummary]:
        """Which trees there are, by run, suite and task."""
        wanted = {key: name for key, name in {"run": run, "suite": suite, "task": task}.items() if name is not None}
        query = select(*_KEY, TREES.c.rollouts, TREES.c.saved_at).filter_by(**wanted)
        return [*map(TreeSummary._make, rows_of(self._engine, query.order_by(*_KEY)))]

    def counts(self) -> dict[str, tuple[int, str]]:
        """By run, how many trees it has, and when one was saved last (ISO 8601, UTC)."""
        query = select(TREES.c.run, func.count(), func.max(TREES.c.saved_at)).group_by(TREES.c.run)
        return {run: (number, saved_at) for run, number, saved_at in rows_of(self._engine, query)}

    def goals(self, trees: Sequence[TreeSummary]) -> dict[TreeSummary, str]:
        """What these trees are to reach."""
        keys = {(tree.run, tree.suite, tree.task): tree for tree in trees}
        query = select(*_KEY, TREES.c.body).where(tuple_(*_KEY).in_([*keys]))
        return {keys[*key]: _goal(body) for *key, body in rows_of(self._engine, query)}


def _superseded_error(task: Task) -> SupersededError:
    return SupersededError(f"the tree of task {task.id} is grown by another process: what that saves counts")


def _goal(body: bytes) -> str:
    """From the beginning of a packed tree, where its task stands."""
    head = text_of(body, most=_TASK).decode(errors="ignore")
    found = re.search(r'"goal":("(?:[^"\\]|\\.)*")', head)
    return json.loads(found[1]) if found else ""
