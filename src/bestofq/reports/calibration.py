"""Whether Q means what it says: the chosen action's Q against what came of it (not in the paper).

Q(s, a) is the expected discounted reward (Best-of-Q, Eq. 2), so it is compared with discount^(steps left) · reward:
with discount 1 the share of episodes that succeed. It should be the one that Q was trained with, else the difference is
a bias that Q does not have. The episodes are the agent's own: they tell of its own policy's Q.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.core.decision import DECIDED, Decision, Episode
from bestofq.reports.scorers import KNOWN, find_meaning
from bestofq.reports.stats import SIGNED, UNIT, Doubles, Interval, Measure, Quantity, share, tally_by_task
from bestofq.reports.table import Row, RowSource, Table, columns

BINS = 10
FARTHEST = 10  # steps before the last that are distinguished


class Valued(NamedTuple):
    """A step: the Q of what was done, and what came of it."""

    task: Hashable
    q: float
    outcome: float  # discounted
    left: int  # steps after it
    success: bool
    scorer: str | None = None


class Bin(NamedTuple):
    """Steps whose Q lies in [low, high)."""

    low: float
    high: float
    steps: int
    q: float  # mean
    q_interval: Interval | None
    outcome: Measure


class Distance(NamedTuple):
    """Mean Q of what was done so many steps before the last, in episodes that succeeded and that did not."""

    left: int
    steps: int
    succeeded: Measure
    failed: Measure


class Calibration(NamedTuple):
    """One agent's Q. `ece`: mean distance of Q and outcome over bins, weighted by steps; more than 0 by chance too."""

    agent: str
    discount: float
    steps: int
    bins: Sequence[Bin]
    ece: Measure
    bias: Measure  # mean Q − mean outcome: above 0, Q hopes too much
    distances: Sequence[Distance]


def valued_steps(episodes: Iterable[Episode], agent: str, *, discount: float = 1.0) -> list[Valued]:
    """The agent's steps whose scores are values, by their scorer's name or a state value beside them."""
    found = []
    for episode in episodes:
        if episode.agent == agent and episode.verdict.outcome in DECIDED:
            task, won = (episode.task.suite, episode.task.id), episode.verdict.outcome == "success"
            for left, step in zip(reversed(range(len(episode.steps))), episode.steps, strict=True):
                q = step.decision.scores[step.decision.chosen]
                if _has_value(step.decision) and np.isfinite(q):
                    found.append(Valued(task, q, discount**left * won, left, won, step.decision.scorer))
    return found


def _has_value(decision: Decision) -> bool:
    found = find_meaning([decision])
    return decision.state_value is not None if found is None else found.values


def are_values(steps: Sequence[Valued]) -> bool:
    """Whether scores are on the scale of rewards, where no scorer's name says so: of log π + Q / β they are not."""
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
    """[B] of `binned` counts added up [B, BINS * 3]: the mean gap of Q and outcome over bins, weighted by steps."""
    parts = sums.reshape(-1, BINS, 3)
    return share(np.abs(parts[..., 1] - parts[..., 2]).sum(axis=1), parts[..., 0].sum(axis=1))


def bias(sums: Doubles) -> Doubles:
    """[B] of the same: mean Q − mean outcome."""
    parts = sums.reshape(-1, BINS, 3)
    return share((parts[..., 1] - parts[..., 2]).sum(axis=1), parts[..., 0].sum(axis=1))


def calibration(steps: Sequence[Valued], agent: str, *, discount: float = 1.0) -> Calibration:
    """Bins of equal width over [0, 1], what lies outside in the nearest. Intervals over tasks."""
    by_task = bin_steps(steps)
    counts = np.array([*by_task.values()]).reshape(-1, BINS, 3)  # [T, bins, (steps, sum of Q, sum of outcomes)]
    bins = []
    for at in range(BINS):
        if number := int(counts[:, at, 0].sum()):
            tasks = {row: one for row, one in enumerate(counts[:, at]) if one[0]}
            outcome = Quantity({row: (one[2], one[0]) for row, one in tasks.items()}, UNIT).measure
            spread = Quantity({row: (one[1], one[0]) for row, one in tasks.items()}).measure.interval
            mean = float(counts[:, at, 1].sum() / number)
            bins.append(Bin(at / BINS, (at + 1) / BINS, number, mean, spread, outcome))
    distances = []
    for left in range(min(FARTHEST, max((step.left for step in steps), default=-1)) + 1):
        here = [step for step in steps if step.left == left]
        won, lost = (
            Quantity(tally_by_task((step.task, step.q, 1) for step in here if step.success == success)).measure
            for success in (True, False)
        )
        distances.append(Distance(left, len(here), won, lost))
    gap, excess = Quantity(by_task, UNIT, ece).measure, Quantity(by_task, SIGNED, bias).measure
    return Calibration(agent, discount, len(steps), bins, gap, excess, distances)


def calibration_table(rows: Sequence[Calibration], made: Mapping[str, RowSource]) -> Table:
    """A row a bin, below them the whole."""
    found = []
    for row in rows:
        origin = made.get(row.agent)
        for low, high, steps, q, q_interval, outcome in row.bins:
            mean = Measure(value=q, interval=q_interval)
            cells = (row.agent, f"{low:.1f} to {high:.1f}", steps, mean, outcome, None, None)
            found.append(Row(cells=cells, origin=origin))
        found.append(Row(cells=(row.agent, "all", row.steps, None, None, row.ece, row.bias), origin=origin))
    discounts = sorted({row.discount for row in rows})
    trained = [made[row.agent].discounts if row.agent in made else () for row in rows]
    notes = [_discount_note(row, own) for row, own in zip(rows, trained, strict=True) if set(own) != {row.discount}]
    return Table(
        name="calibration",
        title="Calibration of Q",
        columns=columns("agent", "Q", "steps", "mean Q", "outcome", "ECE", "bias", digits=3),
        rows=tuple(found),
        notes=(
            "Q of the action that was taken against discount^(steps left) · success, discount "
            f"{', '.join(f'{d:g}' for d in discounts) or 'none'}. 95 % bootstrap over tasks.",
            "ECE: mean gap over bins by steps; chance alone makes it more than 0. Bias: mean Q − mean outcome.",
            *dict.fromkeys(notes),
        ),
    )


def distance_table(rows: Iterable[Calibration], made: Mapping[str, RowSource]) -> Table:
    """A row a distance from the last step."""
    return Table(
        name="q-by-step-from-the-end",
        title="Q by step from the end",
        columns=columns("agent", "steps left", "steps", "succeeded", "failed", digits=3),
        rows=tuple(Row(cells=(row.agent, *at), origin=made.get(row.agent)) for row in rows for at in row.distances),
        notes=("Mean Q of what was taken, so many steps before the last, by how the episode ended.",),
    )


def _discount_note(row: Calibration, trained: Sequence[float]) -> str:
    """What to know where a row's discount is not the one, or not the only one, that its Q was trained with."""
    if trained:
        each = ", ".join(f"{discount:g}" for discount in sorted(trained))
        return f"Q of {row.agent} was trained with discount {each}: another makes its bias (--discount)."
    low = " a Q trained with a smaller one is low by construction" if row.discount == 1 else " its run keeps none"
    return f"discount {row.discount:g} is assumed:{low} (--discount)."
