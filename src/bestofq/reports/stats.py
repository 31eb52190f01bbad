"""How sure the numbers are: means over runs with their standard error, and bootstrap intervals over tasks.

Two kinds of chance, kept apart. The standard error over runs (Best-of-Q, Table 2's ±) says how much another run over
the SAME tasks would differ; the bootstrap intervals say how much OTHER tasks would. An agent without randomness has
runs that are all alike: its error over runs is 0, and only the interval over tasks says anything (`identical_runs`).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import comb, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestofq.core.errors import InputError
from bestofq.core.noun import Noun

RESAMPLES = 10_000
LEVEL = 0.95
_DRAWS_AT_ONCE = 2_000_000

Doubles = NDArray[np.float64]


class Attempt(NamedTuple):
    """One finished episode, as far as statistics need it."""

    task: Hashable
    run: Hashable
    success: bool
    steps: int


class Estimate(Noun):
    """The mean of the runs' means, and its standard error: their standard deviation (n - 1) / √runs."""

    mean: float
    error: float | None  # None with fewer than two runs
    runs: int


class Interval(Noun):
    """A percentile bootstrap interval at `LEVEL`."""

    low: float
    high: float


class Measure(Noun):
    """A number with its interval; None where it is undefined (0 of 0)."""

    value: float | None
    interval: Interval | None = None


class Difference(Noun):
    """Success of one agent minus another's, on the `tasks` that both did, with its interval."""

    mean: float
    low: float
    high: float
    tasks: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def over_runs(means: Sequence[float]) -> Estimate:
    """The estimate from one mean per run; InputError without any."""
    if not means:
        raise InputError("a mean over 0 runs is asked for: at least 1 finished run is needed")
    error = float(np.std(means, ddof=1)) / sqrt(len(means)) if len(means) > 1 else None
    return Estimate(mean=float(np.mean(means)), error=error, runs=len(means))


def success_rate(attempts: Sequence[Attempt]) -> Estimate:
    """Success in [0, 1] (Table 2): per run the share of its tasks that succeeded, then the mean over runs."""
    return over_runs([float(np.mean([a.success for a in run])) for run in _by_run(attempts).values()])


def steps_for_success(attempts: Sequence[Attempt]) -> Estimate | None:
    """Steps of successful episodes (Table 2): their mean per run, then the mean over the runs that have any.

    None when nothing succeeded. Easy tasks weigh more the fewer tasks an agent solves: compare with care.
    """
    by_run = _by_run([a for a in attempts if a.success])
    return over_runs([float(np.mean([a.steps for a in run])) for run in by_run.values()]) if by_run else None


def identical_runs(attempts: Sequence[Attempt]) -> bool:
    """Whether there are two runs or more and each brought the same success in as many steps on the same tasks."""
    runs = [{a.task: (a.success, a.steps) for a in run} for run in _by_run(attempts).values()]
    return len(runs) > 1 and all(run == runs[0] for run in runs)


def task_variance(attempts: Sequence[Attempt]) -> float | None:
    """The "mean of variances" of Appendix F, Fig. 9: each task's variance (n - 1) of success over its runs, averaged.

    Between 0 and 0.5. None when no task was done twice; tasks done once are left out.
    """
    by_task = [[a.success for a in task] for task in _by_task(attempts).values() if len(task) > 1]
    return float(np.mean([np.var(task, ddof=1) for task in by_task])) if by_task else None


def pass_at(attempts: Sequence[Attempt], k: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Measure:
    """Share of tasks that one of k tries solves (Appendix F, Fig. 9), over the tasks done k times or more.

    Per task 1 − C(failures, k) / C(runs, k): the mean over every choice of k of its runs, unbiased (Chen et al. 2021).
    """
    return _mean_over_tasks(attempts, k, lambda runs, lost: 1 - comb(lost, k) / comb(runs, k), resamples, seed)


def pass_variance(attempts: Sequence[Attempt], k: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Measure:
    """The "mean of variances" of pass@k (Fig. 9) over the tasks done 2k times or more; k = 1: `task_variance`.

    A task that k tries miss with probability m = qᵏ has variance m − m². Unbiased from f failures in n runs:
    C(f, k) / C(n, k) − C(f, 2k) / C(n, 2k), which for k = 1 is the variance with n − 1.
    """

    def variance(runs: int, lost: int) -> float:
        return comb(lost, k) / comb(runs, k) - comb(lost, 2 * k) / comb(runs, 2 * k)

    return _mean_over_tasks(attempts, 2 * k, variance, resamples, seed)


Tally = Mapping[Hashable, tuple[float, float]]
"""By task, a part and the whole that it is of: `ratio` adds both up."""


def ratio(counts: Tally, *, resamples: int = RESAMPLES, seed: int = 0) -> Measure:
    """Sum of the first by sum of the second over tasks, with its interval over tasks; undefined where that is 0."""
    table = np.array([*counts.values()], dtype=np.float64).reshape(-1, 2)  # [T, 2]
    return measure(table, lambda sums: share(sums[..., 0], sums[..., 1]), resamples=resamples, seed=seed)


def paired_ratio(ours: Tally, theirs: Tally, *, resamples: int = RESAMPLES, seed: int = 0) -> Difference | None:
    """Ratio of `ours` minus that of `theirs` over the tasks of both, with its interval: both keep the same drawn tasks.

    None where they have no task in common, or a whole is 0.
    """
    common = [task for task in ours if task in theirs]
    if not common:
        return None
    table = np.array([(*ours[task], *theirs[task]) for task in common], dtype=np.float64)  # [T, 4]

    def difference(sums: Doubles) -> Doubles:
        return share(sums[..., 0], sums[..., 1]) - share(sums[..., 2], sums[..., 3])

    found = measure(table, difference, resamples=resamples, seed=seed)
    if found.value is None or found.interval is None:
        return None
    return Difference(mean=found.value, low=found.interval.low, high=found.interval.high, tasks=len(common))


def measure(
    counts: Doubles, statistic: Callable[[Doubles], Doubles], *, resamples: int = RESAMPLES, seed: int = 0
) -> Measure:
    """The statistic of all clusters' counts [T, K] added up, with its `clustered_interval`."""
    if len(counts) == 0 or np.isnan(value := statistic(counts.sum(axis=0, keepdims=True))[0]):
        return Measure(value=None)
    interval = clustered_interval(counts, statistic, resamples=resamples, seed=seed)
    return Measure(value=float(value), interval=interval)


def share(part: Doubles, whole: Doubles) -> Doubles:
    """part / whole, NaN where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole != 0))


def success_interval(attempts: Sequence[Attempt], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The interval of an agent's success over other tasks: tasks resampled, runs averaged within each.

    Where every one of the T tasks succeeded always, or never did, all resamples are alike and would feign certainty:
    the bound is then the exact one of T equal draws, 1 − 0.025^(1/T) away (Clopper and Pearson 1934).
    """
    rates = np.array([np.mean([a.success for a in task]) for task in _by_task(attempts).values()])  # [T]
    if len(rates) == 0:
        raise InputError("an interval over 0 tasks is asked for: at least 1 finished task is needed")
    if rates.min() == rates.max() and rates[0] in (0, 1):
        away = 1 - ((1 - LEVEL) / 2) ** (1 / len(rates))
        return Interval(low=0.0, high=away) if rates[0] == 0 else Interval(low=1 - away, high=1.0)
    return percentiles(_resampled_means(rates, resamples, np.random.default_rng(seed)))


def paired_difference(
    ours: Sequence[Attempt],
    theirs: Sequence[Attempt],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    resample_runs: bool = False,
) -> Difference | None:
    """Success of `ours` minus that of `theirs` with its paired bootstrap interval over tasks.

    Per task the runs are averaged and subtracted: d [T]. T tasks are drawn with replacement `resamples` times; the
    interval is the 2.5 % and 97.5 % percentile of the draws' means. With `resample_runs` each drawn task also has its
    runs drawn again, for each agent on its own (hierarchical): wider, since d already holds one draw of that noise.
    None when the agents have no task in common.
    """
    ours_by_task, theirs_by_task = _by_task(ours), _by_task(theirs)
    common = [task for task in ours_by_task if task in theirs_by_task]
    if not common:
        return None
    ours_runs, ours_won = _counts([ours_by_task[task] for task in common])  # [T] each
    theirs_runs, theirs_won = _counts([theirs_by_task[task] for task in common])
    rng = np.random.default_rng(seed)
    d = ours_won / ours_runs - theirs_won / theirs_runs
    if resample_runs:
        means = np.concatenate(
            [
                # k of n successes, n runs drawn with replacement: Binomial(n, k / n) successes
                (_redraw(rng, ours_won[i], ours_runs[i]) - _redraw(rng, theirs_won[i], theirs_runs[i])).mean(axis=1)
                for i in _draws(len(d), resamples, rng)
            ]
        )
    else:
        means = _resampled_means(d, resamples, rng)
    interval = percentiles(means)
    return Difference(mean=float(d.mean()), low=interval.low, high=interval.high, tasks=len(common))


def clustered_interval(
    counts: Doubles, statistic: Callable[[Doubles], Doubles], *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """The interval of a statistic of summed counts: of T clusters' counts [T, K], T are drawn with replacement and
    added up; `statistic` turns the sums [B, K] into [B], NaN where it is undefined.

    Resamples in which it is undefined are passed over. None where it is defined in none.
    """
    values = statistic(resampled(counts, resamples, np.random.default_rng(seed)))
    defined = values[~np.isnan(values)]
    return percentiles(defined) if len(defined) else None


def resampled(counts: Doubles, resamples: int, rng: np.random.Generator) -> Doubles:
    """Sums [resamples, K] of as many rows [T, K], drawn with replacement."""
    return np.concatenate([counts[i].sum(axis=1) for i in _draws(len(counts), resamples, rng)])


def _mean_over_tasks(
    attempts: Sequence[Attempt], least: int, of_task: Callable[[int, int], float], resamples: int, seed: int
) -> Measure:
    """The mean of `of_task` (runs, failures) over the tasks done `least` times or more."""
    tasks = [[not a.success for a in task] for task in _by_task(attempts).values() if len(task) >= least]
    if not tasks:
        return Measure(value=None)
    values = np.array([of_task(len(lost), sum(lost)) for lost in tasks])  # [T]
    interval = percentiles(_resampled_means(values, resamples, np.random.default_rng(seed)))
    return Measure(value=float(values.mean()), interval=interval)


def _by_run(attempts: Sequence[Attempt]) -> dict[Hashable, list[Attempt]]:
    found: dict[Hashable, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.run, []).append(attempt)
    return found


def _by_task(attempts: Sequence[Attempt]) -> dict[Hashable, list[Attempt]]:
    found: dict[Hashable, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.task, []).append(attempt)
    return found


def _counts(tasks: Sequence[Sequence[Attempt]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Runs [T] and successes [T]."""
    return np.array([len(task) for task in tasks]), np.array([sum(a.success for a in task) for task in tasks])


def _redraw(rng: np.random.Generator, won: NDArray[np.int64], runs: NDArray[np.int64]) -> Doubles:
    return np.asarray(rng.binomial(runs, won / runs) / runs)


def _resampled_means(values: Doubles, resamples: int, rng: np.random.Generator) -> Doubles:
    """[resamples] means of as many values [T], drawn with replacement."""
    return np.concatenate([values[i].mean(axis=1) for i in _draws(len(values), resamples, rng)])


def _draws(count: int, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Indices [B, count], B resamples at a time so that memory stays bounded."""
    at_once = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, resamples, at_once):
        yield rng.integers(count, size=(min(at_once, resamples - start), count))


def percentiles(means: Doubles) -> Interval:
    """The interval between the outer percentiles at `LEVEL`."""
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=float(low), high=float(high))
