"""Whether Q puts what succeeded above what failed: its AUC, whole and by step."""

from collections.abc import Hashable, Sequence

import numpy as np

from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Bools
from bestofq.reports.calibration import Valued
from bestofq.reports.stats import UNIT, Doubles, Quantity, share

LEVELS = 200
"""Into which Q is divided, each with as many steps: within one, success and failure count as equal."""


def taken_q(log: LoggedChoices) -> Doubles:
    """Q of what was taken [T]."""
    return np.asarray(log.q[np.arange(len(log.chosen)), log.chosen], np.float64)


def auc(log: LoggedChoices, rows: Bools | None = None) -> Quantity:
    """The share of pairs of a success's step and a failure's in which Q of what was taken is higher for the success,
    ties by half (Hanley and McNeil 1982). `rows` [T]: of these steps alone. Undefined where one is missing."""
    kept = np.ones(len(log.chosen), bool) if rows is None else rows
    q, won, episode = taken_q(log)[kept], log.success[log.episode][kept], log.episode[kept]
    edges = np.unique(np.quantile(q, np.linspace(0, 1, LEVELS + 1)[1:-1])) if len(q) else np.zeros(0)
    level = np.searchsorted(edges, q, side="right")
    counts: dict[Hashable, Doubles] = {}
    for at, row in enumerate(episode):
        counts.setdefault(log.task[row], np.zeros((2, len(edges) + 1)))[int(won[at]), level[at]] += 1
    return Quantity({task: table.ravel() for task, table in counts.items()}, UNIT, _rank_correlation)


def _rank_correlation(sums: Doubles) -> Doubles:
    """[B] of steps by outcome and level added up [B, 2 · levels]."""
    lost, won = np.split(sums, 2, axis=-1)
    below = np.cumsum(lost, axis=-1) - lost / 2
    return share((won * below).sum(axis=-1), won.sum(axis=-1) * lost.sum(axis=-1))


def to_valued_steps(log: LoggedChoices, discount: float) -> Sequence[Valued]:
    """The steps as calibration reads them: Q of what was taken, and what came of it."""
    left = np.flatnonzero(log.last)[log.episode] - np.arange(len(log.episode))
    won = log.success[log.episode]
    return [
        Valued(log.task[e], float(q), float(w * discount**n), int(n), bool(w))
        for e, q, w, n in zip(log.episode, taken_q(log), won, left, strict=True)
    ]
