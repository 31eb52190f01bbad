"""Success and steps by task, grouped by the database: what a table of success over 100,000 episodes needs."""

from collections.abc import Collection
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, Text, case, cast, func, select

from bestofq.core.decision import Outcome
from bestofq.store import records
from bestofq.store.database import read, rows_of
from bestofq.store.filter import EpisodeFilter
from bestofq.store.records import EpisodeSummary
from bestofq.store.schema import EPISODES, Status

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ENDED: tuple[Status, ...] = ("finished", "cut", "interrupted")
_KEYS = tuple(EPISODES.c[name] for name in ("run", "agent", "suite", "task", "split", "checkpoint", "status"))
_KINDS, _STEPS = 16, 2**16  # more than there are outcomes, and than an episode has steps


class Tally(NamedTuple):
    """The attempts of one agent at one task in one run, with one Q-function and of one status."""

    run: str
    agent: str
    suite: str
    task: str
    split: str
    checkpoint: str | None  # the Q-function that scored the first steps; None: none did
    status: Status
    episode: str  # the id of one of them
    judged: int  # 1 if a judge gave the verdict in force of any
    attempts: NDArray[np.int64]  # [n, 3]: repeat, index of the outcome in `OUTCOMES`, steps
    store: str = ""  # its name, if several stores are compared


def tallies(engine: Engine, runs: Collection[str], *, suite: str | None, split: str | None) -> list[Tally]:
    """The episodes of these runs that have ended, by run, agent, suite and task; attempts by repeat."""
    outcome = case({name: index for index, name in enumerate(OUTCOMES)}, value=EPISODES.c.outcome, else_=_KINDS - 1)
    steps = func.coalesce(EPISODES.c.steps, 0)
    judged = func.max(case((EPISODES.c.verdict.contains('"judge":'), 1), else_=0))
    attempt = cast((EPISODES.c.repeat * _KINDS + outcome) * _STEPS + steps, Text)  # one number for each attempt
    where = EpisodeFilter(runs=[*runs], suite=suite, split=split).clauses
    query = select(*_KEYS, func.min(EPISODES.c.id), judged, func.count(), func.aggregate_strings(attempt, " "))
    query = query.where(EPISODES.c.status.in_(ENDED), *where).group_by(*_KEYS).order_by(*_KEYS)
    rows = rows_of(engine, query)
    packed = np.fromstring(" ".join(row[-1] for row in rows), dtype=np.int64, sep=" ")
    counts = [row[-2] for row in rows]
    packed = packed[np.lexsort((packed, np.repeat(np.arange(len(rows)), counts)))]
    parted = np.stack([packed // _STEPS // _KINDS, packed // _STEPS % _KINDS, packed % _STEPS], axis=1)
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return [Tally._make((*row[:-2], parted[end - row[-2] : end], "")) for row, end in zip(rows, ends, strict=True)]


def judged_summaries(engine: Engine, runs: Collection[str]) -> list[EpisodeSummary]:
    """The finished episodes of these runs whose verdict is a judge's."""
    where = EpisodeFilter(runs=[*runs], status="finished")
    query = records.filter_query(records.summary_rows(), where).where(EPISODES.c.verdict.contains('"judge":'))
    return read(engine, lambda connection: records.summaries(connection, query))
