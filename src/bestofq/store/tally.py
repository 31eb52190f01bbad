"""Outcomes and steps by agent, grouped by the database: what a table of success over 100,000 episodes needs."""

from collections.abc import Collection
from itertools import groupby
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Engine, Text, case, cast, func, select

from bestofq.core.decision import Outcome
from bestofq.store.database import rows_of
from bestofq.store.records import EpisodeFilter
from bestofq.store.schema import EPISODES, Status

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ENDED: tuple[Status, ...] = ("finished", "cut", "interrupted")
_BETWEEN, _WITHIN = "\x1e", "\x1f"


class Tally(NamedTuple):
    """The attempts of one agent in one run on one suite and split, with one Q-function and of one status."""

    run: str
    agent: str
    status: Status
    suite: str
    split: str
    checkpoint: str | None  # the Q-function that scored the first steps; None: none did
    tasks: tuple[str, ...]  # sorted
    attempts: NDArray[np.int64]  # [n, 5] by task and repeat: indices of task, repeat and `OUTCOMES`, judged, steps
    store: str = ""  # its name, if several stores are compared


def tallies(engine: Engine, runs: Collection[str], *, suite: str | None, split: str | None) -> list[Tally]:
    """The episodes of these runs that have ended. In `attempts`, `judged` is 1 if the verdict in force is a judge's.

    The database joins each column of an agent's attempts to one text, which is faster than to send rows.
    """
    outcome = case({name: index for index, name in enumerate(OUTCOMES)}, value=EPISODES.c.outcome, else_=len(OUTCOMES))
    judged = case((EPISODES.c.verdict.contains('"judge":'), 1), else_=0)
    repeat, steps = cast(EPISODES.c.repeat, BigInteger), func.coalesce(EPISODES.c.steps, 0)
    number = ((repeat * 2**4 + outcome) * 2 + judged) * 2**16 + steps  # 21, 4, 1 and 16 bits
    names = (EPISODES.c.suite, EPISODES.c.split, func.coalesce(EPISODES.c.checkpoint, ""), EPISODES.c.task)
    keys = (EPISODES.c.run, EPISODES.c.agent, EPISODES.c.status)  # the index `episodes_by_run`: nothing is sorted
    columns = (func.aggregate_strings(column, _BETWEEN) for column in (*names, cast(number, Text)))
    where = EpisodeFilter(runs=[*runs], suite=suite, split=split).clauses
    query = select(*keys, *columns).where(EPISODES.c.status.in_(ENDED), *where).group_by(*keys).order_by(*keys)
    return [tally for row in rows_of(engine, query) for tally in _split_tallies(*row)]


def _split_tallies(run: str, agent: str, status: Status, *texts: str) -> list[Tally]:
    *columns, _ = (text.split(_BETWEEN) for text in texts)
    names = [*map(_WITHIN.join, zip(*columns, strict=True))]
    known = sorted({*names})
    place = {name: index for index, name in enumerate(known)}
    at = np.fromiter(map(place.__getitem__, names), np.int64, len(names))
    bits = np.sort((at << 42) + np.fromstring(texts[-1], np.int64, sep=_BETWEEN))
    task, parts = bits >> 42, (bits >> 21 & 2**21 - 1, bits >> 17 & 15, bits >> 16 & 1, bits & 2**16 - 1)
    found, begin = [], 0
    for (suite, split, checkpoint), some in groupby((name.split(_WITHIN, 3) for name in known), lambda name: name[:3]):
        tasks = tuple(name[3] for name in some)
        low, high = np.searchsorted(task, (begin, begin + len(tasks)))
        attempts = np.stack([task[low:high] - begin, *(part[low:high] for part in parts)], axis=1)
        found.append(Tally(run, agent, status, suite, split, checkpoint or None, tasks, attempts))
        begin += len(tasks)
    return found
