"""What a store holds as lists to page through: read a part at a time, while another process may be writing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, literal, or_, select, tuple_, union_all

from bestofq.core.decision import DECIDED, Provenance
from bestofq.core.observation import Observation, Task
from bestofq.store import rows
from bestofq.store.codec import unpack
from bestofq.store.filter import EpisodeFilter, came_to
from bestofq.store.records import AgentSummary, EpisodeSummary, StepSummary
from bestofq.store.schema import EPISODES, PAGES, RUNS, STEPS, TASKS, TREES


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What there is to narrow a list by."""

    runs: tuple[str, ...]
    agents: tuple[str, ...]
    suites: tuple[str, ...]
    tasks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """An episode's place in a list: the ids beside it, its number from 1, how many the list has."""

    before: str | None
    after: str | None
    number: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """An episode without its steps, and what it was asked to do."""

    summary: EpisodeSummary
    task: Task
    provenance: Provenance


class Catalogue:
    """Plain calls, each a few indexed queries. `page` reads a packed observation."""

    def __init__(self, engine: Engine, page: Callable[[bytes], Observation]) -> None:
        self._engine = engine
        self._page = page

    def agents(self, *, run: str | None = None) -> list[AgentSummary]:
        """Each agent of each run on each suite, by these names."""
        keys = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.suite)
        finished = EPISODES.c.status == "finished"
        query = select(
            *keys,
            func.count().label("episodes"),
            _number(EPISODES.c.status == "running").label("running"),
            _number(and_(finished, or_(*map(came_to, DECIDED)))).label("decided"),
            _number(and_(finished, came_to("success"))).label("successes"),
            func.max(func.coalesce(EPISODES.c.ended_at, EPISODES.c.started_at)).label("last_at"),
        )
        if run is not None:
            query = query.where(EPISODES.c.run == run)
        with self._engine.connect() as connection:
            found = connection.execute(query.group_by(*keys).order_by(*keys))
            return [AgentSummary(**row._mapping) for row in found]

    def runs(self) -> list[str]:
        """The names of all runs, first those in which an episode began or a tree was saved last."""
        each = union_all(
            select(EPISODES.c.run, func.max(EPISODES.c.started_at).label("at")).group_by(EPISODES.c.run),
            select(TREES.c.run, func.max(TREES.c.saved_at)).group_by(TREES.c.run),
        ).subquery()
        query = select(RUNS.c.name).outerjoin(each, each.c.run == RUNS.c.name).group_by(RUNS.c.name)
        with self._engine.connect() as connection:
            return list(connection.scalars(query.order_by(func.max(each.c.at).desc(), RUNS.c.name)))

    def choices(self, *, run: str | None = None) -> Choices:
        """The names that the episodes (of a run) have."""
        narrowed = [] if run is None else [EPISODES.c.run == run]
        with self._engine.connect() as connection:

            def names(column: str) -> tuple[str, ...]:
                value = EPISODES.c[column]
                return tuple(connection.scalars(select(value).distinct().where(*narrowed).order_by(value)))

            runs = tuple(connection.scalars(select(RUNS.c.name).order_by(RUNS.c.name)))
            return Choices(runs=runs, agents=names("agent"), suites=names("suite"), tasks=names("task"))

    def count(self, wanted: EpisodeFilter) -> int:
        """How many episodes these are."""
        return self._scalar(select(func.count()).select_from(EPISODES).where(*wanted.clauses)) or 0

    def episodes(self, wanted: EpisodeFilter, *, offset: int = 0, limit: int = 50) -> list[EpisodeSummary]:
        """A part of these episodes, those that began last first."""
        query = select(EPISODES.c.id).where(*wanted.clauses)
        query = query.order_by(EPISODES.c.started_at.desc(), EPISODES.c.id.desc()).offset(offset).limit(limit)
        with self._engine.connect() as connection:
            return rows.summaries_of(connection, list(connection.scalars(query)))

    def beside(self, episode: EpisodeSummary, wanted: EpisodeFilter) -> Place:
        """Where an episode stands in the order of `episodes` among these, of which it need not be one."""
        ours = tuple_(EPISODES.c.started_at, EPISODES.c.id)
        here = tuple_(literal(episode.started_at), literal(episode.id))
        newer = select(EPISODES.c.id).where(*wanted.clauses, ours > here)
        older = select(EPISODES.c.id).where(*wanted.clauses, ours < here)
        up, down = (EPISODES.c.started_at, EPISODES.c.id), (EPISODES.c.started_at.desc(), EPISODES.c.id.desc())
        return Place(
            before=self._scalar(newer.order_by(*up).limit(1)),
            after=self._scalar(older.order_by(*down).limit(1)),
            number=1 + (self._scalar(select(func.count()).select_from(newer.subquery())) or 0),
            count=self.count(wanted),
        )

    def count_tasks(self, wanted: EpisodeFilter, *, differing: bool = False) -> int:
        """How many tasks these episodes are of."""
        return self._scalar(select(func.count()).select_from(_by_task(wanted, differing).subquery())) or 0

    def tasks(
        self, wanted: EpisodeFilter, *, differing: bool = False, offset: int = 0, limit: int = 25
    ) -> list[tuple[Task, list[EpisodeSummary]]]:
        """A part of the tasks of these episodes, by suite and id, each with its episodes by run, agent and repeat.

        `differing` leaves out the tasks on which all of these episodes with a telling outcome succeeded, and those on
        which none did.
        """
        query = _by_task(wanted, differing).order_by(EPISODES.c.suite, EPISODES.c.task).offset(offset).limit(limit)
        order = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.repeat, EPISODES.c.started_at)
        with self._engine.connect() as connection:
            some = connection.execute(query).all()
            tasks = _tasks(connection, [row.task_key for row in some])
            here = tuple_(EPISODES.c.suite, EPISODES.c.task).in_([(row.suite, row.task) for row in some])
            ids = connection.scalars(select(EPISODES.c.id).where(here, *wanted.clauses).order_by(*order))
            episodes: dict[tuple[str, str], list[EpisodeSummary]] = {}
            for summary in rows.summaries_of(connection, list(ids)):
                episodes.setdefault(summary.key[:2], []).append(summary)
        return [(tasks[row.task_key], episodes.get((row.suite, row.task), [])) for row in some]

    def head(self, episode: str) -> Head | None:
        """What there is to say of an episode before its steps; None where there is none of this id."""
        with self._engine.connect() as connection:
            found = rows.summaries_of(connection, [episode])
            if not found:
                return None
            query = select(EPISODES.c.task_key, EPISODES.c.provenance).where(EPISODES.c.id == episode)
            row = connection.execute(query).one()
            task = _tasks(connection, [row.task_key])[row.task_key]
        return Head(summary=found[0], task=task, provenance=Provenance.model_validate_json(row.provenance))

    def steps(self, episode: str) -> list[StepSummary]:
        """The steps of an episode so far, without their pages."""
        query = select(STEPS).where(STEPS.c.episode == episode).order_by(STEPS.c.number)
        with self._engine.connect() as connection:
            return [StepSummary(**rows.of_step(row)) for row in connection.execute(query)]

    def seen(self, episode: str, step: int) -> Observation | None:
        """The page of one step; None where there is no such step."""
        query = select(PAGES.c.body).join(STEPS, STEPS.c.page_key == PAGES.c.key)
        return self._read(query.where(STEPS.c.episode == episode, STEPS.c.number == step))

    def final(self, episode: str) -> Observation | None:
        """The page after the last step; None where the episode has none (yet)."""
        query = select(PAGES.c.body).join(EPISODES, EPISODES.c.final_key == PAGES.c.key)
        return self._read(query.where(EPISODES.c.id == episode))

    def _read(self, query: Select[Any]) -> Observation | None:
        body = self._scalar(query)
        return None if body is None else self._page(body)

    def _scalar(self, query: Select[Any]) -> Any:
        with self._engine.connect() as connection:
            return connection.scalar(query)


def _number(clause: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(clause)


def _by_task(wanted: EpisodeFilter, differing: bool) -> Select[Any]:
    keys = (EPISODES.c.suite, EPISODES.c.task)
    query = select(*keys, func.min(EPISODES.c.task_key).label("task_key")).where(*wanted.clauses).group_by(*keys)
    if differing:
        successes, decided = _number(came_to("success")), _number(or_(*map(came_to, DECIDED)))
        query = query.having(and_(successes > 0, successes < decided))
    return query


def _tasks(connection: Connection, keys: list[bytes]) -> dict[bytes, Task]:
    found = connection.execute(select(TASKS.c.key, TASKS.c.body).where(TASKS.c.key.in_(keys)))
    return {row.key: unpack(Task, row.body) for row in found}
