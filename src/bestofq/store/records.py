"""Runs and episodes read from their rows, whole or as summaries; and which ones a list is narrowed to."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, Engine, Select, func, or_, select

from bestofq.core.decision import DECIDED, Decision, Episode, Outcome, Provenance, Step, Verdict
from bestofq.core.errors import DamageError
from bestofq.core.observation import Observation, Task
from bestofq.store.codec import content_key, unpack
from bestofq.store.database import damage_error, verify_rows
from bestofq.store.schema import EPISODES, PAGES, STEPS, TASKS, Status

SEED_RUN = "seed"  # the run of the first episodes of Best-of-Q's recipe
_PAGES_KEPT = 4096
_ORDER = ("run", "agent", "suite", "task", "repeat", "started_at", "id")
_EXACT = ("run", "agent", "suite", "split", "task", "status")
_UNJUDGED = '{"reward":0.0,"outcome":"unjudged"}'
_verdict = lru_cache(4096)(Verdict.model_validate_json)  # most of the environment's are alike


def cycle_run(cycle: int) -> str:
    """Return the run of an exploiting pass; cycles count from 1."""
    return f"cycle-{cycle}"


class EpisodeKey(NamedTuple):
    """What is done at most once by one agent in one run."""

    suite: str
    task: str
    repeat: int


class RunRecord(NamedTuple):
    """One pass over a suite, with the configuration it was begun with."""

    name: str
    config: dict[str, JsonValue]
    config_hash: str
    provenance: Provenance


class EpisodeSummary(NamedTuple):
    """An episode without its steps, as its row tells it. `outcome` and `verdict_json` are None until the verdict."""

    id: str
    run: str
    agent: str
    suite: str
    task: str
    repeat: int
    split: str
    status: Status
    outcome: Outcome | None
    verdict_json: str | None
    checkpoint: str | None  # the Q-function that scored its first step, once it has ended; None: none did
    started_at: str  # ISO 8601, UTC
    ended_at: str | None
    steps: int

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.suite, self.task, self.repeat)

    @property
    def verdict(self) -> Verdict:
        """Without one: `unjudged`. DamageError if it cannot be read."""
        try:
            return _verdict(self.verdict_json or _UNJUDGED)
        except ValueError as error:
            raise DamageError(
                f"the verdict of episode {self.id} is not what was written: `bestofq doctor` says what can be recovered"
            ) from error

    @property
    def reward(self) -> float | None:
        return None if self.verdict_json is None else self.verdict.reward

    @property
    def reason(self) -> str:
        return self.verdict.reason

    @property
    def judge(self) -> str:
        """Who gave the verdict; empty: the environment or the rollout."""
        return self.verdict.judge

    @property
    def seconds(self) -> float | None:
        """From its beginning to its end; None without one."""
        if self.ended_at is None:
            return None
        return (datetime.fromisoformat(self.ended_at) - datetime.fromisoformat(self.started_at)).total_seconds()

    @property
    def success(self) -> bool:
        return self.outcome == "success"

    @property
    def fair_order(self) -> tuple[int, bytes]:
        """Sorts a run by passes, and a pass so that its first episodes are a fair sample of the tasks."""
        return self.repeat, hashlib.sha256(self.task.encode()).digest()

    @property
    def decided(self) -> bool:
        """Whether the outcome tells how the agent did (`DECIDED`)."""
        return self.outcome in DECIDED


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeFilter:
    """Which episodes; None: any."""

    run: str | None = None
    agent: str | None = None
    suite: str | None = None
    split: str | None = None
    task: str | None = None  # Task.id
    status: Status | None = None
    outcome: str | None = None  # an Outcome, or the status `running` or `interrupted`
    find: str | None = None  # a part of task ids
    task_keys: Sequence[bytes] | None = None  # or, with `find`, one of these tasks (`Catalogue.found`)
    runs: Sequence[str] | None = None  # one of these
    agents: Sequence[str] | None = None

    @property
    def clauses(self) -> list[ColumnElement[bool]]:
        found = [EPISODES.c[name] == value for name in _EXACT if (value := getattr(self, name)) is not None]
        found += [EPISODES.c[n[:-1]].in_(some) for n in ("runs", "agents") if (some := getattr(self, n)) is not None]
        if self.outcome is not None:
            column = EPISODES.c.status if self.outcome in ("running", "interrupted") else EPISODES.c.outcome
            found.append(column == self.outcome)
        if self.find is not None:
            named = EPISODES.c.task.icontains(self.find, autoescape=True)
            found.append(or_(named, EPISODES.c.task_key.in_(self.task_keys or ())))
        return found


def filter_query(query: Select[Any], where: EpisodeFilter) -> Select[Any]:
    """The query narrowed to these episodes, in an order that does not depend on which one ended first."""
    return query.where(*where.clauses).order_by(*(EPISODES.c[name] for name in _ORDER))


PageReader = Callable[[bytes, bytes], Observation | None]


def make_page_reader() -> PageReader:
    """Return a function that unpacks a page by its key, or gives None if the body is not what was written. It keeps the
    last pages, so that equal pages are one object."""
    return lru_cache(_PAGES_KEPT)(lambda key, body: unpack(Observation, body) if content_key(body) == key else None)


def summaries(connection: Connection, query: Select[Any]) -> list[EpisodeSummary]:
    """Return the episodes of a query over `summary_rows`. A list of many compares no checksums."""
    return [*map(EpisodeSummary._make, connection.execute(query))]


def summaries_of(connection: Connection, ids: Sequence[str]) -> list[EpisodeSummary]:
    """The episodes with these ids, in their order; unknown ids are left out."""
    by_id = {each.id: each for each in summaries(connection, summary_rows().where(EPISODES.c.id.in_(ids)))}
    return [by_id[episode] for episode in ids if episode in by_id]


def episodes(connection: Connection, ids: Sequence[str], read: PageReader) -> list[Episode]:
    """The episodes with these ids, in their order; unknown ids are left out. DamageError."""

    def page(key: bytes, body: bytes | None, number: int | None, episode: str) -> Observation:
        if body is None or (found := read(key, body)) is None:
            where = "last page" if number is None else f"page of step {number}"
            raise damage_error(connection, f"the {where} of episode {episode}")
        return found

    step_rows = (
        select(STEPS, PAGES.c.body)
        .outerjoin(PAGES, PAGES.c.key == STEPS.c.page_key)
        .where(STEPS.c.episode.in_(ids))
        .order_by(STEPS.c.episode, STEPS.c.number)
    )
    steps: dict[str, list[Step]] = {episode: [] for episode in ids}
    for row in verify_rows(connection, STEPS, connection.execute(step_rows)):
        episode, number, key, reward, terminated, truncated, decision, _, body = row
        ending = {"reward": reward, "terminated": terminated, "truncated": truncated}
        seen = page(key, body, number, episode)
        steps[episode].append(Step(index=number, observation=seen, decision=unpack(Decision, decision), **ending))
    episode_rows = (
        select(EPISODES, TASKS.c.body.label("task_body"), PAGES.c.body.label("final_body"))
        .outerjoin(TASKS, TASKS.c.key == EPISODES.c.task_key)
        .outerjoin(PAGES, PAGES.c.key == EPISODES.c.final_key)
        .where(EPISODES.c.id.in_(ids))
    )
    found: dict[str, Episode] = {}
    for row in verify_rows(connection, EPISODES, connection.execute(episode_rows)):
        own = steps[row.id]
        if [step.index for step in own] != list(range(len(own) if row.steps is None else row.steps)):
            raise damage_error(connection, f"the number of steps of episode {row.id}")
        verdict = row.verdict and Verdict.model_validate_json(row.verdict)
        found[row.id] = Episode(
            id=row.id,
            run=row.run,
            agent=row.agent,
            task=read_task(connection, row.task_key, row.task_body),
            steps=tuple(own),
            final=None if row.final_key is None else page(row.final_key, row.final_body, None, row.id),
            verdict=verdict or Verdict(reward=0.0, outcome="infra_error", reason=row.status),
            provenance=Provenance.model_validate_json(row.provenance),
        )
    return [found[episode] for episode in ids if episode in found]


def read_task(bind: Engine | Connection, key: bytes, body: bytes | None) -> Task:
    """Unpack a task. DamageError if the body is not what was written."""
    if body is None or content_key(body) != key:
        raise damage_error(bind, f"task {key.hex()}")
    return unpack(Task, body)


def summary_rows() -> Select[Any]:
    """Select all episodes as `EpisodeSummary`, with the number of their steps so far."""
    counted = select(func.count()).where(STEPS.c.episode == EPISODES.c.id).scalar_subquery()
    *names, _ = (name.removesuffix("_json") for name in EpisodeSummary._fields)
    return select(*(EPISODES.c[name] for name in names), func.coalesce(EPISODES.c.steps, counted))
