"""Choose the gate's thresholds on held-out logs: where leaving the first candidate has been shown to help."""

from collections.abc import Sequence

import numpy as np

from bestofq.core.frozen import FrozenModel
from bestofq.core.gate import FAMILIARITY, Held
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Bools, Ints
from bestofq.reports.off_policy import first, greedy, local_approximation
from bestofq.reports.stats import Doubles, PairedDifference, group_by
from bestofq.reports.table import Table, columns

Thresholds = tuple[float | None, ...]
SHUT: Thresholds = (None,) * len(FAMILIARITY)
QUANTILES = (0.0, 0.25, 0.5, 0.75)
"""Of the margins at a level: the thresholds that are tried."""


class GatePoint(FrozenModel):
    """A threshold of one level, and what it lets through."""

    level: int
    threshold: float
    share: float  # of all steps, those that leave the first candidate
    lift: PairedDifference | None  # of success, over the first candidate
    held: Held = "tasks"


def gate_points(log: LoggedChoices, held: Held = "tasks") -> list[GatePoint]:
    """Return the thresholds that can be tried at each level of familiarity, from the most familiar."""
    base = first(log)
    best, margin, level = _read_margins(log)
    points: list[GatePoint] = []
    for each in reversed(range(len(FAMILIARITY))[-1 if held == "passes" else 0 :]):
        here = (best > 0) & (level == each)
        tried = np.unique(np.quantile(margin[here], QUANTILES) - 1e-6) if here.any() else ()
        for threshold in map(float, tried):
            leaves = here & (margin > threshold)
            lift = local_approximation(log, _leave_first(leaves, best, base), base).difference
            points.append(GatePoint(level=each, threshold=threshold, share=float(leaves.mean()), lift=lift, held=held))
    return points


def calibrate(
    log: LoggedChoices, points: Sequence[GatePoint], least: int
) -> tuple[Thresholds, PairedDifference | None]:
    """Return the thresholds, and the agent's gain behind them. Levels inherit only if its lower bound is above 0."""
    for inherit in (True, False):
        thresholds = choose_thresholds(points, least, inherit=inherit)
        lift = local_approximation(log, gate_policy(log, thresholds), first(log)).difference
        if lift and lift.low > 0:
            break
    return thresholds, lift


def choose_thresholds(points: Sequence[GatePoint], least: int, *, inherit: bool = False) -> Thresholds:
    """Return the lowest threshold of each level whose lift has a lower bound above 0 over at least `least` tasks.

    Among held-out groups a mean lift above 0 is enough; if both were held out, the higher threshold counts. A level
    that no held-out step reached has that of the level before it. Held-out passes can open the last level alone. None:
    shut. The lowest, not the one with the most lift: logs of an agent that explores understate what a decision brings
    among other good ones.

    `inherit`: if the level before is open, a mean lift above 0 is enough for one that knows more. Its threshold is at
    least that of the level before.
    """
    thresholds, before = list[float | None](), np.inf
    for level in range(len(FAMILIARITY)):
        limits = dict[Held, float]()
        here = group_by((point for point in points if point.level == level), lambda point: point.held)
        for held, tried in here.items():
            known = [(point.lift, point.threshold) for point in tried if point.lift]
            helps = [limit for lift, limit in known if inherit and lift.mean > 0]
            told = [
                (lift.mean if held == "groups" else lift.low, limit) for lift, limit in known if lift.tasks >= least
            ]
            shown = [limit for gain, limit in told if gain > 0]
            limits[held] = min(max(before, min(helps, default=np.inf)), min(shown, default=np.inf))
        again = limits.pop("passes", np.inf)
        before = min(max(limits.values(), default=before), again)
        thresholds.append(None if before == np.inf else before)
    return tuple(thresholds)


def gate_policy(log: LoggedChoices, thresholds: Sequence[float | None]) -> Doubles:
    """π of the agent behind the gate [T, N]."""
    best, margin, level = _read_margins(log)
    limits = np.array([np.inf if limit is None else limit for limit in thresholds])[level]
    return _leave_first((best > 0) & (margin > limits), best, first(log))


def _read_margins(log: LoggedChoices) -> tuple[Ints, Doubles, Ints]:
    """The best candidate of each step [T], its value less the first one's, and how familiar it is."""
    rows, best = np.arange(len(log.q)), greedy(log).argmax(axis=1)
    return best, log.q[rows, best] - log.q[:, 0], log.level[rows, best]


def _leave_first(leaves: Bools, best: Ints, base: Doubles) -> Doubles:
    """π that takes the best candidate in these steps [T], else the first one."""
    return np.where(leaves[:, None], np.eye(base.shape[1])[best], base)


def gate_table(points: Sequence[GatePoint], thresholds: Sequence[float | None]) -> Table:
    return Table.of(
        "gate",
        "When to leave the first candidate",
        (
            *columns("what is known", "held out", "threshold", digits=3),
            *columns("steps %", "difference %", "chosen", signed=["difference"]),
        ),
        [
            (
                FAMILIARITY[point.level],
                point.held,
                point.threshold,
                point.share,
                point.lift,
                "yes" if thresholds[point.level] == point.threshold else "",
            )
            for point in points
        ],
        "Threshold: the least margin of the best value over the first candidate's. Difference: of success, if only "
        "these steps leave the first candidate; the lowest whose lower bound is above 0 is chosen.",
    )
