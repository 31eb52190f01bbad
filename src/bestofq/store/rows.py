"""Rows read back as nouns."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from bestofq.core.decision import Decision, Episode, Provenance, Step, Verdict
from bestofq.core.observation import Observation, Task
from bestofq.store.codec import unpack
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.schema import EPISODES, PAGES, STEPS, TASKS

_ORDER = ("run", "agent", "suite", "task", "repeat", "started_at", "id")


def narrowed(query: Select[Any], where: EpisodeFilter) -> Select[Any]:
    """The query narrowed to these episodes, in an order that does not depend on which one ended first."""
    return query.where(*where.clauses).order_by(*(EPISODES.c[name] for name in _ORDER))


def summaries_of(connection: Connection, ids: Sequence[str]) -> list[EpisodeSummary]:
    """The episodes with these ids, in their order; unknown ids are left out."""
    found = {row.id: summary(row) for row in connection.execute(summary_rows().where(EPISODES.c.id.in_(ids)))}
    return [found[episode] for episode in ids if episode in found]


def episodes(connection: Connection, ids: Sequence[str], page: Callable[[bytes], Observation]) -> list[Episode]:
    """The episodes with these ids, in their order; unknown ids are left out. `page` reads a packed observation."""
    step_rows = (
        select(STEPS, PAGES.c.body)
        .join(PAGES, PAGES.c.key == STEPS.c.page_key)
        .where(STEPS.c.episode.in_(ids))
        .order_by(STEPS.c.episode, STEPS.c.number)
    )
    steps: dict[str, list[Step]] = {episode: [] for episode in ids}
    for row in connection.execute(step_rows):
        same = {name: getattr(row, name) for name in ("reward", "terminated", "truncated")}
        decision = unpack(Decision, row.decision)
        steps[row.episode].append(Step(index=row.number, observation=page(row.body), decision=decision, **same))
    episode_rows = (
        select(EPISODES, TASKS.c.body.label("task_body"), PAGES.c.body.label("final_body"))
        .join(TASKS, TASKS.c.key == EPISODES.c.task_key)
        .outerjoin(PAGES, PAGES.c.key == EPISODES.c.final_key)
        .where(EPISODES.c.id.in_(ids))
    )
    found = {
        row.id: Episode(
            id=row.id,
            run=row.run,
            agent=row.agent,
            task=unpack(Task, row.task_body),
            steps=tuple(steps[row.id]),
            final=None if row.final_body is None else page(row.final_body),
            verdict=_verdict(row) or Verdict(reward=0.0, outcome="infra_error", reason=row.status),
            provenance=Provenance.model_validate_json(row.provenance),
        )
        for row in connection.execute(episode_rows)
    }
    return [found[episode] for episode in ids if episode in found]


def summary_rows() -> Select[Any]:
    steps = select(func.count()).where(STEPS.c.episode == EPISODES.c.id).scalar_subquery().label("steps")
    return select(*(column for column in EPISODES.c if column is not EPISODES.c.provenance), steps)


def summary(row: Row[Any]) -> EpisodeSummary:
    verdict, ended = _verdict(row), row.ended_at and datetime.fromisoformat(row.ended_at)
    said = verdict or Verdict(reward=0.0, outcome="unjudged")
    same = {name: getattr(row, name) for name in ("id", "run", "agent", "split", "status", "steps", "started_at")}
    return EpisodeSummary(
        key=EpisodeKey(row.suite, row.task, row.repeat),
        outcome=None if verdict is None else verdict.outcome,
        reward=None if verdict is None else verdict.reward,
        reason=said.reason,
        judge=said.judge,
        judging=said.usage if said.judge else (),
        replies=said.replies,
        seconds=(ended - datetime.fromisoformat(row.started_at)).total_seconds() if ended else None,
        **same,
    )


def _verdict(row: Row[Any]) -> Verdict | None:
    return None if row.verdict is None else Verdict.model_validate_json(row.verdict)
