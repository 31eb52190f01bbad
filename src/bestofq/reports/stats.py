"""How sure the numbers are: means over runs with their standard error, and bootstrap intervals over tasks.

Two kinds of chance, kept apart. The standard error over runs (Best-of-Q, Table 2's ±) says how much another run over
the SAME tasks would differ; the bootstrap intervals say how much OTHER tasks would. An agent without randomness has
runs that are all alike: its error over runs is 0, and only the interval over tasks says anything (`identical_runs`).
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import sqrt
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


def success_interval(attempts: Sequence[Attempt], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The interval of an agent's success over other tasks: tasks resampled, runs averaged within each."""
    rates = np.array([np.mean([a.success for a in task]) for task in _by_task(attempts).values()])  # [T]
    if len(rates) == 0:
        raise InputError("an interval over 0 tasks is asked for: at least 1 finished task is needed")
    return _percentiles(_resampled_means(rates, resamples, np.random.default_rng(seed)))


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
    interval = _percentiles(means)
    return Difference(mean=float(d.mean()), low=interval.low, high=interval.high, tasks=len(common))


def clustered_interval(
    counts: Doubles, statistic: Callable[[Doubles], Doubles], *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """The interval of a statistic of summed counts: of T clusters' counts [T, K], T are drawn with replacement and
    added up; `statistic` turns the sums [B, K] into [B], NaN where it is undefined.

    Resamples in which it is undefined are passed over. None where it is defined in none.
    """
    rng = np.random.default_rng(seed)
    values = np.concatenate([statistic(counts[i].sum(axis=1)) for i in _draws(len(counts), resamples, rng)])
    defined = values[~np.isnan(values)]
    return _percentiles(defined) if len(defined) else None


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


def _percentiles(means: Doubles) -> Interval:
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=float(low), high=float(high))
