"""Search trees, each kept as a whole after every rollout, so that a search continues where its process ended."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from sqlalchemy import Engine, func, select, tuple_

from bestofq.core.tree import SearchTree
from bestofq.store.codec import pack, text_of, unpack
from bestofq.store.database import rows_of, upsert, verified
from bestofq.store.records import EpisodeKey, TreeSummary
from bestofq.store.schema import TREES, sealed
from bestofq.store.writer import Writer

_TASK = 20_000  # bytes of a tree that hold its task


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

    def counts(self) -> dict[str, tuple[int, str]]:
        """By run, how many trees it has, and when one was saved last (ISO 8601, UTC)."""
        query = select(TREES.c.run, func.count(), func.max(TREES.c.saved_at)).group_by(TREES.c.run)
        return {run: (number, saved_at) for run, number, saved_at in rows_of(self._engine, query)}

    def goals(self, trees: Sequence[TreeSummary]) -> dict[TreeSummary, str]:
        """What these trees are to reach."""
        keys = {(tree.run, *tree.key): tree for tree in trees}
        query = select(*TREES.primary_key, TREES.c.body).where(tuple_(*TREES.primary_key).in_([*keys]))
        return {keys[*key]: _goal(body) for *key, body in rows_of(self._engine, query)}


def _goal(body: bytes) -> str:
    """From the beginning of a packed tree, where its task stands."""
    head = text_of(body, most=_TASK).decode(errors="ignore")
    found = re.search(r'"goal":("(?:[^"\\]|\\.)*")', head)
    return json.loads(found[1]) if found else ""
