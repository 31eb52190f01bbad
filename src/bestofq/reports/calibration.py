"""Whether Q means what it says: the chosen action's Q against what came of it (not in the paper).

Q(s, a) is the expected discounted reward (Best-of-Q, Eq. 2), so it is compared with discount^(steps left) · reward.
With discount 1 that is the share of episodes that succeed. The discount should be the one that Q was trained with;
another one adds a bias. The episodes are the agent's own, so they judge Q under its own policy.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.core.decision import DECIDED, Decision, Episode
from bestofq.reports.stats import SIGNED, UNIT, Doubles, Interval, Measure, Quantity, share
from bestofq.reports.table import Cell, RowSource, Table, columns
from bestofq.reports.values import KNOWN, find_meaning

BINS = 10


class Valued(NamedTuple):
    """A step: the Q of what was done, and what came of it."""

    task: Hashable
    q: float
    outcome: float  # discounted
    scorer: str | None = None


class Bin(NamedTuple):
    """Steps whose Q lies in [low, high)."""

    low: float
    high: float
    steps: int
    q: float  # mean
    q_interval: Interval | None
    outcome: Measure


class Calibration(NamedTuple):
    """One agent's Q. `ece`: mean distance of Q and outcome over bins, weighted by steps; above 0 by chance too."""

    agent: str
    discount: float
    steps: int
    bins: Sequence[Bin]
    ece: Measure
    bias: Measure  # mean Q − mean outcome; above 0, Q is too optimistic


def valued_steps(episodes: Iterable[Episode], agent: str, *, discount: float = 1.0) -> list[Valued]:
    """The agent's steps whose scores are values. The scorer's name says so, or that the step has a state value."""
    found = []
    for episode in episodes:
        if episode.agent == agent and episode.verdict.outcome in DECIDED:
            task, won = (episode.task.suite, episode.task.id), episode.verdict.outcome == "success"
            for left, step in zip(reversed(range(len(episode.steps))), episode.steps, strict=True):
                q = step.decision.scores[step.decision.chosen]
                if _has_value(step.decision) and np.isfinite(q):
                    found.append(Valued(task, q, discount**left * won, step.decision.scorer))
    return found


def _has_value(decision: Decision) -> bool:
    found = find_meaning([decision])
    return decision.state_value is not None if found is None else found.values


def are_values(steps: Sequence[Valued]) -> bool:
    """Whether scores are on the scale of rewards, if no scorer's name says so: those of log π + Q / β are not."""
    if steps and all(step.scorer in KNOWN for step in steps):
        return True
    low, high = np.quantile([step.q for step in steps], [0.02, 0.98]) if steps else (np.nan, np.nan)
    return bool(low > -0.5 and high < 1.5)


def bin_steps(steps: Iterable[Valued]) -> dict[Hashable, Doubles]:
    """By task [BINS * 3]: of each bin the steps, the sum of their Q and of their outcomes."""
    found: dict[Hashable, Doubles] = {}
    for step in steps:
        at = min(max(int(step.q * BINS), 0), BINS - 1)
        found.setdefault(step.task, np.zeros(BINS * 3))[3 * at : 3 * at + 3] += (1, step.q, step.outcome)
    return found


def ece(sums: Doubles) -> Doubles:
    """[B] from sums of `bin_steps` [B, BINS * 3]: the mean gap of Q and outcome over bins, weighted by steps."""
    parts = sums.reshape(-1, BINS, 3)
    return share(np.abs(parts[..., 1] - parts[..., 2]).sum(axis=1), parts[..., 0].sum(axis=1))


def bias(sums: Doubles) -> Doubles:
    """[B] from the same: mean Q − mean outcome."""
    parts = sums.reshape(-1, BINS, 3)
    return share((parts[..., 1] - parts[..., 2]).sum(axis=1), parts[..., 0].sum(axis=1))


def calibration(steps: Sequence[Valued], agent: str, *, discount: float = 1.0) -> Calibration:
    """Bins of equal width over [0, 1]; values outside fall in the nearest one. Intervals over tasks."""
    by_task = bin_steps(steps)
    counts = np.array([*by_task.values()]).reshape(-1, BINS, 3)  # [T, bins, (steps, sum of Q, sum of outcomes)]
    bins = []
    for at in range(BINS):
        held = {task: row for task, row in enumerate(counts[:, at]) if row[0]}
        if held:
            outcome = Quantity({task: (row[2], row[0]) for task, row in held.items()}, UNIT).measure
            q = Quantity({task: (row[1], row[0]) for task, row in held.items()}).measure
            number = int(counts[:, at, 0].sum())
            bins.append(Bin(at / BINS, (at + 1) / BINS, number, q.value or 0.0, q.interval, outcome))
    gap, excess = Quantity(by_task, UNIT, ece).measure, Quantity(by_task, SIGNED, bias).measure
    return Calibration(agent, discount, len(steps), bins, gap, excess)


def calibration_table(rows: Sequence[Calibration], made: Mapping[str, RowSource]) -> Table:
    """A row for each bin of an agent, then one for all its steps."""
    found: list[tuple[Cell, ...]] = []
    notes = []
    for row in rows:
        for low, high, steps, q, q_interval, outcome in row.bins:
            mean = Measure(value=q, interval=q_interval)
            found.append((row.agent, f"{low:.1f} to {high:.1f}", steps, mean, outcome, None, None))
        found.append((row.agent, "all", row.steps, None, None, row.ece, row.bias))
        trained = made[row.agent].discounts if row.agent in made else ()
        if trained and {*trained} != {row.discount}:
            each = ", ".join(f"{discount:g}" for discount in sorted(trained))
            notes.append(f"Q of {row.agent} was trained with discount {each}: another adds a bias (--discount).")
        elif not trained:
            why = "a Q trained with a smaller one looks too low" if row.discount == 1 else "its run does not keep it"
            notes.append(f"discount {row.discount:g} is assumed: {why} (--discount).")
    discounts = ", ".join(f"{discount:g}" for discount in sorted({row.discount for row in rows})) or "none"
    return Table.of(
        "calibration",
        "Calibration of Q",
        columns("agent", "Q", "steps", "mean Q", "outcome", "ECE", "bias", digits=3),
        found,
        f"Q of the chosen action against discount^(steps left) · success, discount {discounts}. "
        "95 % bootstrap over tasks.",
        "ECE: mean gap over bins by steps; chance alone makes it more than 0. Bias: mean Q − mean outcome.",
        *dict.fromkeys(notes),
        made=made,
    )
