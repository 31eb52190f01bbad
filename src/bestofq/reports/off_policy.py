"""What success another way to choose among the same candidates would have had, from logged choices alone.

The model is "same proposer, other choice": what is proposed depends on the task, the page and the past actions, not on
who chooses. Then no model of pages or proposers is needed, only the probabilities of each choice. They are those of two
policies π and π_0, and of the logging policy μ (ε-greedy, random). A policy chooses only what μ gives a chance.

The reward is 1 at the last step of a success (Best-of-Q, 3.1), and success is not discounted. `pi` [T, N] are the
probabilities of a log's candidates.
"""

from collections.abc import Hashable

import numpy as np

from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Bools
from bestofq.reports.stats import SIGNED, UNIT, Doubles, Quantity, share

LEVELS = 200  # into which Q is divided, each with as many steps: within one, success and failure count as equal


def greedy(log: LoggedChoices, n: int | None = None) -> Doubles:
    """π of the ranked agent [T, N]: the highest Q of the first `n` candidates, the first among equals."""
    best = np.where(log.propensity == 0, -np.inf, log.q)[:, :n].argmax(axis=1)
    return np.asarray(np.eye(log.q.shape[1])[best])


def first(log: LoggedChoices) -> Doubles:
    """π of the proposer alone [T, N]: its first candidate."""
    return greedy(log, 1)


def local_approximation(log: LoggedChoices, pi: Doubles, base: Doubles) -> Quantity:
    """The difference to `base`, π_0: (1/E) Σ_i Σ_t [(π(a_t | s_t) − π_0(a_t | s_t)) / μ(a_t | s_t)] (r_i − b_t).

    It adds up what each choice alone would change (the local approximation of Kakade and Langford 2002; Schulman et al.
    2015). Weights do not multiply over steps, so its variance is small, and steps at which both choose alike add
    nothing. It is biased if choices work together. b_t is the mean success of the episodes that reach step t, which
    changes no expectation. The span for tasks that are all alike is -1 to 1, or as wide as their value.
    """
    rows, begins = np.arange(len(log.chosen)), np.roll(log.last, 1)
    number = rows - np.flatnonzero(begins)[log.episode]  # of each step in its episode, from 0
    ratio = (pi - base)[rows, log.chosen] / log.propensity[rows, log.chosen]
    won = log.success[log.episode].astype(np.float64)
    mean = np.bincount(number, won) / np.bincount(number)
    counts = np.stack([ratio * (won - mean[number]), begins], axis=1)
    found = Quantity(sum_by_task(log, counts), statistic=lambda s: share(s[..., 0], s[..., 1]))
    value = found.value or 0.0
    return found._replace(span=(min(SIGNED[0], value), max(SIGNED[1], value)))


def known(log: LoggedChoices) -> Bools:
    """[E] episodes whose every step tells the chance of each candidate and gives the first one some. None if the agent
    could have taken others and never had a chance to."""
    unknown = np.isnan(log.propensity).any(axis=1) | (log.propensity[:, 0] <= 0)
    told = np.bincount(log.episode, weights=unknown, minlength=len(log.task)) == 0
    here = told[log.episode]
    several, free = ((table[here].sum(axis=1) > 1).any() for table in (log.q > -np.inf, log.propensity > 0))
    return np.asarray(told & (free or not several))


def sum_by_task(log: LoggedChoices, rows: Doubles) -> dict[Hashable, Doubles]:
    """Counts of steps [T, K] added up by task."""
    number = {task: at for at, task in enumerate(dict.fromkeys(log.task))}
    counts = np.zeros((len(number), rows.shape[1]))
    np.add.at(counts, np.array([number[task] for task in log.task])[log.episode], rows)
    return dict(zip(number, counts, strict=True))


def auc(log: LoggedChoices) -> Quantity:
    """How often Q of the chosen action is higher for a step of a success than for one of a failure, over all such
    pairs; ties count half (Hanley and McNeil 1982). Undefined without a pair."""
    q = np.asarray(log.q[np.arange(len(log.chosen)), log.chosen], np.float64)
    won, episode = log.success[log.episode], log.episode
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
