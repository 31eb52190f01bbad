"""Choose the gate's thresholds on held-out logs: where leaving the first candidate has been shown to help."""

from collections.abc import Mapping, Sequence

import numpy as np

from bestofq.core.frozen import FrozenModel
from bestofq.core.gate import FAMILIARITY, Held
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Ints
from bestofq.reports.off_policy import first, greedy, local_approximation
from bestofq.reports.stats import Doubles, PairedDifference
from bestofq.reports.table import Table, columns

Thresholds = tuple[float | None, ...]
SHUT: Thresholds = (None,) * len(FAMILIARITY)
QUANTILES = (0.0, 0.25, 0.5, 0.75)  # of the margins at a level: the thresholds that are tried


class GatePoint(FrozenModel):
    """A threshold of one level that was tried, and what it lets through."""

    level: int
    threshold: float
    share: float  # of all steps, those that leave the first candidate at this level
    lift: PairedDifference | None  # of success, if only these steps leave the first candidate
    whole: PairedDifference | None  # the same with the steps of all levels that know more
    held: Held = "tasks"

    @property
    def gains(self) -> bool:
        return self.share == 0 or (self.lift is not None and self.lift.mean > 0)


def calibrate(
    log: LoggedChoices, others: Mapping[Held, LoggedChoices], least: int
) -> tuple[Thresholds, list[GatePoint]]:
    """Return the threshold of each level, and all that were tried. None: the level stays shut.

    Levels open from the one that knows most. A level has the lowest threshold at which leaving the first candidate
    gains at this level: over at least `least` held-out tasks the lower bound is above 0. Together with all levels that
    know more it must gain as surely. Those that are still shut take part at the same threshold, and open with it. If
    held-out groups reach the level, they must gain there on average. Held-out passes can open the last level alone.

    So a level stays shut if what is known better does not help: its own gain is then more likely chance. The lowest
    threshold, not the one with the most lift: logs of an agent that explores understate what a decision brings among
    other good ones.
    """
    limits, points, last = list[float | None](SHUT), list[GatePoint](), len(SHUT) - 1

    def is_sure(point: GatePoint) -> bool:
        return all(lift and lift.tasks >= least and lift.low > 0 for lift in (point.lift, point.whole))

    if passes := others.get("passes"):
        points += [gate_point(passes, last, limit, SHUT, "passes") for limit in thresholds_of(passes, last)]
        limits[last] = min((point.threshold for point in points if is_sure(point)), default=None)
    held: dict[Held, LoggedChoices] = {"tasks": log, **{name: others[name] for name in others if name == "groups"}}
    for level in reversed(range(len(limits))):
        reaching = {name: each for name, each in held.items() if thresholds_of(each, level)}
        shown = list[float]()
        for limit in next((thresholds_of(each, level) for each in reaching.values()), []):
            tried = [gate_point(each, level, limit, limits, name) for name, each in reaching.items()]
            points += tried
            if is_sure(tried[0]) and all(point.gains for point in tried):
                shown.append(limit)
        if shown:
            limits[level:] = [min(shown) if limit is None else limit for limit in limits[level:]]
    return tuple(limits), points


def thresholds_of(log: LoggedChoices, level: int) -> list[float]:
    """Return the thresholds to try at a level: quantiles of the margins of the steps that reach it."""
    margin, reached = _margins(log)
    here = (margin > 0) & (reached == level)
    return np.unique(np.quantile(margin[here], QUANTILES) - 1e-6).tolist() if here.any() else []


def gate_point(
    log: LoggedChoices, level: int, threshold: float, limits: Sequence[float | None], held: Held = "tasks"
) -> GatePoint:
    """Try a threshold of one level. `limits` are those of the levels that know more; shut ones open with this one."""
    alone = [threshold if each == level else None for each in range(len(SHUT))]
    opened = [threshold if limit is None else limit for limit in limits]
    whole = [limit if each >= level else None for each, limit in enumerate(opened)]
    base, own, every = first(log), gate_policy(log, alone), gate_policy(log, whole)
    return GatePoint(
        level=level,
        threshold=threshold,
        share=float((own != base).any(axis=1).mean()),
        lift=local_approximation(log, own, base).difference,
        whole=local_approximation(log, every, base).difference,
        held=held,
    )


def gate_policy(log: LoggedChoices, thresholds: Sequence[float | None]) -> Doubles:
    """π of the agent behind the gate [T, N]."""
    margin, level = _margins(log)
    limits = np.array([np.inf if limit is None else limit for limit in thresholds])
    return np.where((margin > limits[level])[:, None], greedy(log), first(log))


def _margins(log: LoggedChoices) -> tuple[Doubles, Ints]:
    """Return how far the best value is above the first candidate's [T], -∞ if that is best, and the best's level."""
    rows, best = np.arange(len(log.q)), greedy(log).argmax(axis=1)
    return np.where(best > 0, log.q[rows, best] - log.q[:, 0], -np.inf), log.level[rows, best]


def gate_table(points: Sequence[GatePoint], thresholds: Sequence[float | None]) -> Table:
    return Table.of(
        "gate",
        "When to leave the first candidate",
        (
            *columns("what is known", "held out", "threshold", digits=3),
            *columns(
                "steps %", "difference %", "with better known %", "chosen", signed=["difference", "with better known"]
            ),
        ),
        [
            (
                *(FAMILIARITY[point.level], point.held, point.threshold, point.share, point.lift, point.whole),
                "yes" if thresholds[point.level] == point.threshold else "",
            )
            for point in points
        ],
        "Threshold: the least margin of the best value over the first candidate's. Difference: of success, if only "
        "these steps leave the first candidate, and if steps of levels that know more leave it, too. The lowest "
        "threshold is chosen at which the lower bounds of both are above 0.",
    )
