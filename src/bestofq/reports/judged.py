"""Success by a judge, with the judge's own error in it (Rogan and Gladen 1978).

A judge who finds a true success with probability se (sensitivity) and a true failure with sp (specificity) says success
with probability p·se + (1 − p)·(1 − sp). So the true rate is p = (said + sp − 1) / (se + sp − 1), and a difference of
two agents under one judge is the difference said by se + sp − 1. se and sp come from episodes whose environment knows
the truth (`bestofq judge --against-env`); that they hold for other tasks and agents is an assumption.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.core.errors import InputError
from bestofq.reports import stats
from bestofq.reports.stats import Attempt, Difference, Doubles, Measure, share
from bestofq.reports.table import Origin, Row, Table, columns


class Corrected(NamedTuple):
    """Success as judged, and corrected. `defined`: share of resamples that count, with a judge better than chance."""

    agent: str
    said: Measure
    true: Measure
    defined: float
    difference: Difference | None  # of true success, to a baseline; None: itself, or no task in common


class JudgeError(NamedTuple):
    """A judge's measured error, by task [T, 4]: true and false positives, false and true negatives."""

    judge: str
    counts: Doubles

    @property
    def sensitivity(self) -> Measure:
        return stats.measure(self.counts, lambda sums: rates(sums)[0], span=stats.UNIT)

    @property
    def specificity(self) -> Measure:
        return stats.measure(self.counts, lambda sums: rates(sums)[1], span=stats.UNIT)


def rates(sums: Doubles) -> tuple[Doubles, Doubles]:
    """Sensitivity and specificity [...] of [..., 4], NaN where there is nothing to measure them on."""
    return share(sums[..., 0], sums[..., 0] + sums[..., 2]), share(sums[..., 3], sums[..., 1] + sums[..., 3])


def corrected(
    agent: str, attempts: Sequence[Attempt], error: JudgeError, baseline: Sequence[Attempt] = ()
) -> Corrected:
    """Success of judged attempts, corrected. Both samples are drawn again, each over its own tasks; the difference to
    `baseline`, judged by the same judge, is paired by task.

    InputError when there is no attempt, or the judge is no better than chance: then its verdicts say nothing.
    """
    tasks = stats.task_rates(attempts)
    if not tasks:
        raise InputError(f"no judged episode of {agent}: there is nothing to correct")
    said = np.array(list(tasks.values()))  # [T]
    whole_se, whole_sp = rates(error.counts.sum(axis=0))
    if not whole_se + whole_sp > 1:
        raise InputError(
            f"judge {error.judge} is no better than chance (sensitivity {float(whole_se):.2f}, specificity "
            f"{float(whole_sp):.2f}): no success rate can be had from its verdicts"
        )
    rng = np.random.default_rng(0)
    says = stats.resampled(said[:, None], stats.RESAMPLES, rng)[:, 0] / len(said)  # [B]
    drawn = rates(stats.resampled(error.counts, stats.RESAMPLES, rng))  # [B] each
    se, sp = (_unsure(of_draws, own, rng) for of_draws, own in zip(drawn, rates(error.counts), strict=True))
    says = _unsure(says, said, rng)
    usable = se + sp > 1  # False where NaN
    true = np.clip((says + sp - 1)[usable] / (se + sp - 1)[usable], 0, 1)
    value = float(np.clip((said.mean() + whole_sp - 1) / (whole_se + whole_sp - 1), 0, 1))
    return Corrected(
        agent=agent,
        said=Measure(value=float(said.mean()), interval=stats.percentiles(says)),
        true=Measure(value=value, interval=stats.percentiles(true) if len(true) else None),
        defined=float(usable.mean()),
        difference=_difference(tasks, stats.task_rates(baseline), se + sp - 1, float(whole_se + whole_sp - 1), rng),
    )


def _difference(
    ours: Mapping[Hashable, float],
    theirs: Mapping[Hashable, float],
    drawn: Doubles,
    whole: float,
    rng: np.random.Generator,
) -> Difference | None:
    """The difference said, by se + sp − 1: `drawn` [B], `whole` on the whole sample. Where d is alike in all tasks:
    `stats.clopper_pearson_interval`, each bound by the percentile that makes it wider."""
    d = np.array([rate - theirs[task] for task, rate in ours.items() if task in theirs])  # [T]
    usable = drawn > 0
    if not len(d) or not usable.any():
        return None
    by = drawn[usable]
    if np.allclose(d, d[0]):
        said, info = stats.clopper_pearson_interval(float(d[0]), len(d), stats.SIGNED), stats.percentiles(by)
        corners = np.array([[bound / info.low, bound / info.high] for bound in (said.low, said.high)])
        low, high = np.clip([corners[0].min(), corners[1].max()], -1, 1)
        bounds = stats.Interval(low=float(low), high=float(high))
    else:
        differences = stats.resampled(d[:, None], len(drawn), rng)[:, 0] / len(d)  # [B]
        bounds = stats.percentiles(np.clip(differences[usable] / by, -1, 1))
    mean = float(np.clip(d.mean() / whole, -1, 1))
    return Difference(mean=mean, low=bounds.low, high=bounds.high, tasks=len(d))


def _unsure(drawn: Doubles, own: Doubles, rng: np.random.Generator) -> Doubles:
    """The resampled share [B]; where the tasks' own shares are all 0, or all 1, draws whose outer percentiles are the
    bounds of `stats.clopper_pearson_interval`: such a judge has only not been seen to err."""
    known = own[~np.isnan(own)]
    end = float(known[0])
    if end not in (0.0, 1.0) or (known != end).any():
        return drawn
    away = 1 - rng.random(len(drawn)) ** (1 / len(known))
    return np.where(np.isnan(drawn), np.nan, end + away * (1 - 2 * end))


def corrected_table(rows: Sequence[Corrected], error: JudgeError, made: Mapping[str, Origin]) -> Table:
    """A row an agent."""
    se, sp = error.sensitivity, error.specificity
    return Table(
        name="judged",
        title="Success with the judge's error in it",
        columns=columns(
            *("agent", "as judged %", "corrected %", "difference %", "sensitivity %", "specificity %"),
            signed=["difference"],
        ),
        rows=tuple(Row(cells=(r.agent, r.said, r.true, r.difference, se, sp), origin=made.get(r.agent)) for r in rows),
        notes=(
            f"Judge: {error.judge}, its error measured on {int(error.counts.sum())} episodes of {len(error.counts)} "
            "tasks whose environment knows the truth; that it errs alike here is an assumption.",
            "Rogan and Gladen 1978; 95 % bootstrap over the tasks of both samples. Difference: corrected too.",
            *(
                f"{row.agent}: the judge is no better than chance in {100 * (1 - row.defined):.1f} % of the resamples, "
                "which are left out: the interval is too narrow."
                for row in rows
                if row.defined < 1
            ),
        ),
    )
