"""What a store holds as lists to page through: read a part at a time, while another process may be writing."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)

from bestofq.core.decision import DECIDED, Episode
from bestofq.core.observation import Task
from bestofq.store import records
from bestofq.store.codec import content_key, text_of
from bestofq.store.database import read, rows_of, scalar_of
from bestofq.store.filter import EpisodeFilter, came_to
from bestofq.store.records import EpisodeSummary
from bestofq.store.schema import EPISODES, RUNS, STEPS, TASKS, TREES, VERDICTS

_TASK = (EPISODES.c.suite, EPISODES.c.task)
_NEWEST_FIRST = (EPISODES.c.started_at.desc(), EPISODES.c.id.desc())


class Choices(NamedTuple):
    """What there is to narrow a list by."""

    runs: tuple[str, ...]
    agents: tuple[str, ...]
    suites: tuple[str, ...]
    tasks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlace:
    """An episode's place in a list: the ids beside it, its number from 1, how many the list has."""

    before: str | None
    after: str | None
    number: int
    count: int


class Catalogue:
    """Plain calls, each a few indexed queries."""

    def __init__(self, engine: Engine, pages: records.Pages) -> None:
        self._engine = engine
        self._pages = pages
        self._goals: dict[bytes, str] = {}  # by the task's key, which is a hash of it: they never change

    def agents(self, *, run: str | None = None) -> Sequence[Row[Any]]:
        """Each agent of each run and suite with its numbers of `episodes`, those `running`, `decided` (finished, in
        `DECIDED`) and `successes`, the `tasks` of decided ones, and `last_at`, when one began or ended last (ISO 8601,
        UTC)."""
        keys = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.suite)
        finished = EPISODES.c.status == "finished"
        decided = and_(finished, or_(*map(came_to, DECIDED)))
        query = select(
            *keys,
            func.count().label("episodes"),
            _number(EPISODES.c.status == "running").label("running"),
            _number(decided).label("decided"),
            _number(and_(finished, came_to("success"))).label("successes"),
            func.count(case((decided, EPISODES.c.task)).distinct()).label("tasks"),
            func.max(func.coalesce(EPISODES.c.ended_at, EPISODES.c.started_at)).label("last_at"),
        )
        query = query.where(*EpisodeFilter(run=run).clauses).group_by(*keys).order_by(*keys)
        return rows_of(self._engine, query)

    def judged_at(self, run: str) -> str | None:
        """When a judge gave its last verdict on an episode of the run (ISO 8601, UTC)."""
        query = select(func.max(VERDICTS.c.judged_at)).join(EPISODES).where(EPISODES.c.run == run)
        found: str | None = scalar_of(self._engine, query)
        return found

    def load_usage(self, episodes: Sequence[str]) -> dict[str, tuple[int, float | None]]:
        """By episode the tokens of its decisions, and their USD; None where a price is not known."""
        query = select(STEPS.c.episode, STEPS.c.decision).where(STEPS.c.episode.in_(episodes))
        found: dict[str, tuple[int, float | None]] = dict.fromkeys(episodes, (0, 0.0))
        for episode, decision in rows_of(self._engine, query):
            tokens, usd = found[episode]
            for one in json.loads(text_of(decision)).get("usage", ()):
                amount, price = one.get("tokens_in", 0) + one.get("tokens_out", 0), one.get("usd")
                tokens += amount
                usd = None if usd is None or (price is None and amount) else usd + (price or 0.0)
            found[episode] = tokens, usd
        return found

    def goals(self, episodes: Iterable[str]) -> Mapping[str, str]:
        """The goals of the episodes with these ids."""
        query = select(EPISODES.c.id, EPISODES.c.task_key).where(EPISODES.c.id.in_([*episodes]))
        keys = dict(rows_of(self._engine, query))
        self._read_goals(TASKS.c.key.in_({key for key in keys.values() if key not in self._goals}))
        return {episode: self._goals.get(key, "") for episode, key in keys.items()}

    def found(self, wanted: EpisodeFilter) -> EpisodeFilter:
        """The filter with the tasks whose goals hold every word of what it is to `find`."""
        if wanted.find is None:
            return wanted
        if self._count(select(TASKS.c.key)) > len(self._goals):
            self._read_goals()
        words = wanted.find.lower().split()
        keys = [key for key, goal in self._goals.items() if all(word in goal.lower() for word in words)]
        return replace(wanted, task_keys=keys)

    def _read_goals(self, *only: ColumnElement[bool]) -> None:
        rows = rows_of(self._engine, select(TASKS.c.key, TASKS.c.body).where(*only))
        self._goals |= {key: json.loads(text_of(body))["goal"] for key, body in rows if content_key(body) == key}

    def runs(self) -> list[str]:
        """The names of all runs, first those in which an episode began or a tree was saved last."""
        each = union_all(
            select(EPISODES.c.run, func.max(EPISODES.c.started_at).label("at")).group_by(EPISODES.c.run),
            select(TREES.c.run, func.max(TREES.c.saved_at)).group_by(TREES.c.run),
        ).subquery()
        query = select(RUNS.c.name).outerjoin(each, each.c.run == RUNS.c.name).group_by(RUNS.c.name)
        return list(self._column(query.order_by(func.max(each.c.at).desc().nulls_last(), RUNS.c.name)))

    def choices(self, *, run: str | None = None) -> Choices:
        """The names that the episodes (of a run) have."""

        def names(column: str) -> tuple[str, ...]:
            value = EPISODES.c[column]
            return self._column(select(value).distinct().where(*EpisodeFilter(run=run).clauses).order_by(value))

        runs = self._column(select(RUNS.c.name).order_by(RUNS.c.name))
        return Choices(runs=runs, agents=names("agent"), suites=names("suite"), tasks=names("task"))

    def count(self, wanted: EpisodeFilter) -> int:
        """How many episodes these are."""
        return self._count(select(EPISODES.c.id).where(*wanted.clauses))

    def episodes(self, wanted: EpisodeFilter, *, offset: int = 0, limit: int = 50) -> list[EpisodeSummary]:
        """A part of these episodes, those that began last first."""
        query = select(EPISODES.c.id).where(*wanted.clauses).order_by(*_NEWEST_FIRST).offset(offset).limit(limit)
        return read(self._engine, lambda connection: records.summaries_of(connection, [*connection.scalars(query)]))

    def beside(self, episode: EpisodeSummary, wanted: EpisodeFilter) -> StepPlace:
        """Where an episode stands in the order of `episodes` among these, of which it need not be one."""
        ours = tuple_(EPISODES.c.started_at, EPISODES.c.id)
        here = tuple_(literal(episode.started_at), literal(episode.id))
        newer, older = (select(EPISODES.c.id).where(*wanted.clauses, side) for side in (ours > here, ours < here))
        return StepPlace(
            before=scalar_of(self._engine, newer.order_by(EPISODES.c.started_at, EPISODES.c.id).limit(1)),
            after=scalar_of(self._engine, older.order_by(*_NEWEST_FIRST).limit(1)),
            number=1 + self._count(newer),
            count=self.count(wanted),
        )

    def count_tasks(self, wanted: EpisodeFilter, *, differing: bool = False) -> int:
        """How many tasks these episodes are of."""
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
            said = select(*_TASK, EPISODES.c.task_key, TASKS.c.body).outerjoin(
                TASKS, TASKS.c.key == EPISODES.c.task_key
            )
            each = connection.execute(said.where(*here).distinct().order_by(EPISODES.c.task_key.desc()))
            tasks = {row[:2]: records.read_task(connection, row.task_key, row.body) for row in each}
            ids = connection.scalars(select(EPISODES.c.id).where(*here).order_by(*order))
            episodes: dict[tuple[str, str], list[EpisodeSummary]] = {}
            for summary in records.summaries_of(connection, list(ids)):
                episodes.setdefault(summary.key[:2], []).append(summary)
            return [(tasks[key], episodes[key]) for key in some]

        return read(self._engine, found)

    def episode(self, episode: str) -> tuple[EpisodeSummary, Episode] | None:
        """One episode, in both its forms, with its steps so far; None where there is none of this id."""

        def both(connection: Connection) -> tuple[EpisodeSummary, Episode] | None:
            found = records.summaries_of(connection, [episode])
            return (found[0], records.episodes(connection, [episode], self._pages)[0]) if found else None

        return read(self._engine, both)

    def _count(self, query: Select[Any]) -> int:
        return scalar_of(self._engine, select(func.count()).select_from(query.subquery())) or 0

    def _column(self, query: Select[Any]) -> tuple[Any, ...]:
        return tuple(value for (value,) in rows_of(self._engine, query))


def _number(clause: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(clause)


def _by_task(wanted: EpisodeFilter, differing: bool) -> Select[Any]:
    query = select(*_TASK).where(*wanted.clauses).group_by(*_TASK)
    if differing:
        successes, decided = _number(came_to("success")), _number(or_(*map(came_to, DECIDED)))
        query = query.having(and_(successes > 0, successes < decided))
    return query
