"""A store's contents as lists to page through, while another process may write."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Engine, Row, func, select, tuple_

from bestofq.core.decision import DECIDED, Episode
from bestofq.core.observation import Task
from bestofq.store import records
from bestofq.store.codec import content_key, text_of
from bestofq.store.database import read, rows_of, scalar_of
from bestofq.store.records import EpisodeFilter, EpisodeSummary
from bestofq.store.schema import EPISODES, RUNS, STEPS, TASKS, TREES, VERDICTS

_TASK = (EPISODES.c.suite, EPISODES.c.task)
_DECIDED = EPISODES.c.outcome.in_(DECIDED)
_NEWEST_FIRST = (EPISODES.c.started_at.desc(), EPISODES.c.id.desc())


class Choices(NamedTuple):
    """The names that a list can be filtered by."""

    runs: tuple[str, ...]
    agents: tuple[str, ...]
    suites: tuple[str, ...]


class Place(NamedTuple):
    """An episode's place in a list: its neighbours' ids, its number from 1, and the length of the list."""

    before: str | None
    after: str | None
    number: int
    total: int


@dataclass(frozen=True)
class Catalogue:
    """Plain calls, each a few indexed queries."""

    _engine: Engine
    _pages: records.PageReader

    def agents(self, *, run: str | None = None) -> Sequence[Row[Any]]:
        """Count the episodes of each agent of each run and suite: `episodes`, `running`, `decided` (finished, with an
        outcome in `DECIDED`), `successes`, and the `tasks` of decided ones. `last_at`: the last beginning or end.
        """
        keys = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.suite)
        query = select(
            *keys,
            func.count().label("episodes"),
            _number(EPISODES.c.status == "running").label("running"),
            _number(_DECIDED).label("decided"),
            _number(EPISODES.c.outcome == "success").label("successes"),
            func.count(sa.case((_DECIDED, EPISODES.c.task)).distinct()).label("tasks"),
            func.max(func.coalesce(EPISODES.c.ended_at, EPISODES.c.started_at)).label("last_at"),
        )
        return rows_of(self._engine, query.where(*EpisodeFilter(run=run).clauses).group_by(*keys).order_by(*keys))

    def judged_at(self, run: str) -> str | None:
        """Return when a judge gave its last verdict on an episode of the run (ISO 8601, UTC)."""
        query = select(func.max(VERDICTS.c.judged_at)).join(EPISODES).where(EPISODES.c.run == run)
        return scalar_of(self._engine, query)

    def load_usage(self, episodes: Sequence[str]) -> dict[str, tuple[int, float | None]]:
        """Return the tokens and USD of each episode's decisions; None if a price is not known."""
        query = select(STEPS.c.episode, STEPS.c.decision).where(STEPS.c.episode.in_(episodes))
        totals: dict[str, tuple[int, float | None]] = dict.fromkeys(episodes, (0, 0.0))
        for episode, decision in rows_of(self._engine, query):
            tokens, usd = totals[episode]
            for usage in json.loads(text_of(decision)).get("usage", ()):
                amount, price = usage.get("tokens_in", 0) + usage.get("tokens_out", 0), usage.get("usd")
                tokens += amount
                usd = None if usd is None or (price is None and amount) else usd + (price or 0.0)
            totals[episode] = tokens, usd
        return totals

    def goals(self, episodes: Iterable[str]) -> Mapping[str, str]:
        query = select(EPISODES.c.id, TASKS.c.key, TASKS.c.body).join(TASKS).where(EPISODES.c.id.in_([*episodes]))
        return {episode: _goal(key, body) for episode, key, body in rows_of(self._engine, query)}

    def found(self, wanted: EpisodeFilter) -> EpisodeFilter:
        """Add the tasks whose goals contain every word of `find` to a filter."""
        if wanted.find is None:
            return wanted
        words = wanted.find.lower().split()
        goals = ((key, _goal(key, body).lower()) for key, body in rows_of(self._engine, select(TASKS)))
        return replace(wanted, task_keys=[key for key, goal in goals if all(word in goal for word in words)])

    def runs(self) -> list[str]:
        """The names of all runs, first those in which an episode began or a tree was saved last."""
        each = sa.union_all(
            select(EPISODES.c.run, func.max(EPISODES.c.started_at).label("at")).group_by(EPISODES.c.run),
            select(TREES.c.run, func.max(TREES.c.saved_at)).group_by(TREES.c.run),
        ).subquery()
        query = select(RUNS.c.name).outerjoin(each, each.c.run == RUNS.c.name).group_by(RUNS.c.name)
        return list(self._column(query.order_by(func.max(each.c.at).desc().nulls_last(), RUNS.c.name)))

    def choices(self, *, run: str | None = None) -> Choices:
        runs = self._column(select(RUNS.c.name).order_by(RUNS.c.name))
        columns, only = (EPISODES.c.agent, EPISODES.c.suite), EpisodeFilter(run=run).clauses
        return Choices(runs, *(self._column(select(name).distinct().where(*only).order_by(name)) for name in columns))

    def count(self, wanted: EpisodeFilter) -> int:
        return self._count(select(EPISODES.c.id).where(*wanted.clauses))

    def episodes(self, wanted: EpisodeFilter, *, offset: int = 0, limit: int = 50) -> list[EpisodeSummary]:
        """A part of these episodes, those that began last first."""
        query = select(EPISODES.c.id).where(*wanted.clauses).order_by(*_NEWEST_FIRST).offset(offset).limit(limit)
        return read(self._engine, lambda connection: records.summaries_of(connection, [*connection.scalars(query)]))

    def beside(self, episode: EpisodeSummary, wanted: EpisodeFilter) -> Place:
        """Return the place of an episode in the order of `episodes`, as if it were one of these."""
        ours = tuple_(EPISODES.c.started_at, EPISODES.c.id)
        here = tuple_(sa.literal(episode.started_at), sa.literal(episode.id))
        newer, older = (select(EPISODES.c.id).where(*wanted.clauses, side) for side in (ours > here, ours < here))
        before = scalar_of(self._engine, newer.order_by(EPISODES.c.started_at, EPISODES.c.id).limit(1))
        after = scalar_of(self._engine, older.order_by(*_NEWEST_FIRST).limit(1))
        return Place(before, after, 1 + self._count(newer), self.count(wanted))

    def count_tasks(self, wanted: EpisodeFilter, *, differing: bool = False) -> int:
        return self._count(_by_task(wanted, differing))

    def tasks(
        self, wanted: EpisodeFilter, *, differing: bool = False, offset: int = 0, limit: int = 25
    ) -> list[tuple[Task, list[EpisodeSummary]]]:
        """A part of the tasks of these episodes, by suite and id, with the episodes by run, agent and repeat.
        `differing`: without those on which all decided episodes succeeded, or none."""
        part = _by_task(wanted, differing).order_by(*_TASK).offset(offset).limit(limit)
        order = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.repeat, EPISODES.c.started_at)

        def found(connection: Connection) -> list[tuple[Task, list[EpisodeSummary]]]:
            some = [(suite, task) for suite, task in connection.execute(part)]
            here = (tuple_(*_TASK).in_(some), *wanted.clauses)
            rows = select(*_TASK, EPISODES.c.task_key, TASKS.c.body).outerjoin(TASKS)
            each = connection.execute(rows.where(*here).distinct().order_by(EPISODES.c.task_key.desc()))
            tasks = {row[:2]: records.read_task(connection, row.task_key, row.body) for row in each}
            ids = connection.scalars(select(EPISODES.c.id).where(*here).order_by(*order))
            episodes: dict[tuple[str, str], list[EpisodeSummary]] = {}
            for summary in records.summaries_of(connection, list(ids)):
                episodes.setdefault(summary.key[:2], []).append(summary)
            return [(tasks[key], episodes[key]) for key in some]

        return read(self._engine, found)

    def episode(self, episode: str) -> tuple[EpisodeSummary, Episode] | None:
        """One episode, in both its forms, with its steps so far; None if there is none of this id."""

        def both(connection: Connection) -> tuple[EpisodeSummary, Episode] | None:
            found = records.summaries_of(connection, [episode])
            return (found[0], records.episodes(connection, [episode], self._pages)[0]) if found else None

        return read(self._engine, both)

    def _count(self, query: sa.Select[Any]) -> int:
        return scalar_of(self._engine, select(func.count()).select_from(query.subquery())) or 0

    def _column(self, query: sa.Select[Any]) -> tuple[Any, ...]:
        return tuple(value for (value,) in rows_of(self._engine, query))


def _goal(key: bytes, body: bytes) -> str:
    """Return the goal of a packed task; empty if it is damaged."""
    return str(json.loads(text_of(body))["goal"]) if content_key(body) == key else ""


def _number(clause: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(clause)


def _by_task(wanted: EpisodeFilter, differing: bool) -> sa.Select[Any]:
    query = select(*_TASK).where(*wanted.clauses).group_by(*_TASK)
    if differing:
        successes = _number(EPISODES.c.outcome == "success")
        query = query.having(sa.and_(successes > 0, successes < _number(_DECIDED)))
    return query
