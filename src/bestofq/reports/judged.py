"""Success by a judge, with the judge's own error in it (Rogan and Gladen 1978).

A judge who finds a true success with probability se (sensitivity) and a true failure with sp (specificity) says success
with probability p·se + (1 − p)·(1 − sp). So the true rate is p = (said + sp − 1) / (se + sp − 1). se and sp come from
episodes whose environment knows the truth (`bestofq judge --against-env`); that they hold for other tasks and agents is
an assumption.

A judge is not asked about every episode: one that ran out of steps, or had no valid action, is known to have failed.
Of all tries let j be the share that was judged, s the share that the judge called a success, and k the share that is
known to be one. Only what was judged is corrected: p = k + (s + j·(sp − 1)) / (se + sp − 1). That is linear in s, j and
k, so a difference of two agents under one judge is the same of their differences in s, j and k.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bestofq.core.errors import InputError
from bestofq.reports import stats
from bestofq.reports.stats import Attempt, Doubles, Measure, PairedDifference, share
from bestofq.reports.table import Row, RowSource, Table, columns


class Corrected(NamedTuple):
    """Success as counted, and corrected. `judged`: share of tries that a judge was asked about. `defined`: share of
    resamples that count, with a judge better than chance."""

    agent: str
    said: Measure
    true: Measure
    judged: float
    defined: float
    difference: PairedDifference | None  # of true success, to a baseline; None: itself, or no task in common


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


def correct_success(
    agent: str, attempts: Sequence[Attempt], error: JudgeError, baseline: Sequence[Attempt] = ()
) -> Corrected:
    """Success of attempts, corrected where they were judged. Both samples are drawn again, each over its own tasks; the
    difference to `baseline`, judged by the same judge, is paired by task.

    InputError when there is no attempt, a rate of the judge was not measured, or it is no better than chance: then its
    verdicts say nothing.
    """
    tasks = _shares(attempts)
    if not tasks:
        raise InputError(f"no judged episode of {agent}: there is nothing to correct")
    shares = np.array(list(tasks.values()))  # [T, 3]
    whole_se, whole_sp = rates(error.counts.sum(axis=0))
    for rate, name, ended in ((whole_se, "sensitivity", "succeeded"), (whole_sp, "specificity", "failed")):
        if np.isnan(rate):
            raise InputError(
                f"the {name} of judge {error.judge} was not measured: no episode that it was measured on (--judge-run) "
                f"really {ended}. Measure it on a run that has successes and failures (`bestofq judge --against-env`)"
            )
    if not whole_se + whole_sp > 1:
        raise InputError(
            f"judge {error.judge} is no better than chance (sensitivity {float(whole_se):.2f}, specificity "
            f"{float(whole_sp):.2f}): no success rate can be had from its verdicts"
        )
    rng = np.random.default_rng(0)
    drawn_shares = stats.resample(shares, stats.RESAMPLES, rng) / len(shares)  # [B, 3]
    drawn = rates(stats.resample(error.counts, stats.RESAMPLES, rng))  # [B] each
    se, sp = (_unsure(of_draws, own, rng) for of_draws, own in zip(drawn, rates(error.counts), strict=True))
    drawn_shares[:, 0] = _unsure(drawn_shares[:, 0], shares[:, 0], rng)
    usable = se + sp > 1  # False where NaN
    true = np.clip(_true(drawn_shares[usable], se[usable], sp[usable]), 0, 1)
    said, whole = shares.mean(axis=0), (whole_se, whole_sp)
    return Corrected(
        agent=agent,
        said=Measure(value=float(said[0]), interval=stats.percentiles(drawn_shares[:, 0])),
        true=Measure(
            value=float(np.clip(_true(said, *whole), 0, 1)), interval=stats.percentiles(true) if len(true) else None
        ),
        judged=float(said[1]),
        defined=float(usable.mean()),
        difference=_difference(tasks, _shares(baseline), (se, sp), whole, rng),
    )


def _shares(attempts: Sequence[Attempt]) -> dict[Hashable, Doubles]:
    """By task [3], shares of its attempts: counted as a success (s + k), judged (j), known to be a success (k)."""
    return {
        task: np.mean([(one.success, one.judged, one.success and not one.judged) for one in tried], axis=0)
        for task, tried in stats.by_task(attempts).items()
    }


def _true(shares: Doubles, se: Doubles, sp: Doubles) -> Doubles:
    """Corrected [...] of the shares, or of differences of them [..., 3]."""
    counted, judged, known = np.moveaxis(shares, -1, 0)
    return np.asarray(known + (counted - known + judged * (sp - 1)) / (se + sp - 1))


def _difference(
    ours: Mapping[Hashable, Doubles],
    theirs: Mapping[Hashable, Doubles],
    drawn: tuple[Doubles, Doubles],
    whole: tuple[Doubles, Doubles],
    rng: np.random.Generator,
) -> PairedDifference | None:
    """The difference of the shares, corrected by se and sp: `drawn` [B] each, `whole` on the whole sample. Where what
    is counted differs alike in all tasks: `stats.clopper_pearson_interval` of that, each bound by the percentile of
    se + sp − 1 that makes it wider, moved by the outer percentiles of what the other shares add."""
    d = np.array([shares - theirs[task] for task, shares in ours.items() if task in theirs])  # [T, 3]
    usable = drawn[0] + drawn[1] > 1
    if not len(d) or not usable.any():
        return None
    se, sp = (rate[usable] for rate in drawn)
    differences = stats.resample(d, len(usable), rng)[usable] / len(d)  # [B, 3]
    if np.allclose(d[:, 0], d[0, 0]):
        said, info = stats.clopper_pearson_interval(d[0, 0], len(d), stats.SIGNED), stats.percentiles(se + sp - 1)
        rest = stats.percentiles(_true(differences * (0, 1, 1), se, sp))
        corners = np.array([[bound / info.low, bound / info.high] for bound in (said.low, said.high)])
        low, high = np.clip([corners[0].min() + rest.low, corners[1].max() + rest.high], -1, 1)
        bounds = stats.Interval(low=float(low), high=float(high))
    else:
        bounds = stats.percentiles(np.clip(_true(differences, se, sp), -1, 1))
    mean = float(np.clip(_true(d.mean(axis=0), *whole), -1, 1))
    return PairedDifference(mean=mean, low=bounds.low, high=bounds.high, tasks=len(d))


def _unsure(drawn: Doubles, own: Doubles, rng: np.random.Generator) -> Doubles:
    """The resampled share [B]; where the tasks' own shares are all 0, or all 1, draws whose outer percentiles are the
    bounds of `stats.clopper_pearson_interval`: such a judge has only not been seen to err."""
    known = own[~np.isnan(own)]
    end = float(known[0])
    if end not in (0.0, 1.0) or (known != end).any():
        return drawn
    away = 1 - rng.random(len(drawn)) ** (1 / len(known))
    return np.where(np.isnan(drawn), np.nan, end + away * (1 - 2 * end))


def corrected_table(rows: Sequence[Corrected], error: JudgeError, made: Mapping[str, RowSource]) -> Table:
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
                f"{row.agent}: no judge was asked about {100 * (1 - row.judged):.1f} % of its tries (out of steps, no "
                "valid action), which count as they ended, without correction."
                for row in rows
                if row.judged < 1
            ),
            *(
                f"{row.agent}: the judge is no better than chance in {100 * (1 - row.defined):.1f} % of the resamples, "
                "which are left out: the interval is too narrow."
                for row in rows
                if row.defined < 1
            ),
        ),
    )
