"""How sure the numbers are: means over runs with their standard error, and bootstrap intervals over tasks.

These are two kinds of chance. The standard error over runs (Best-of-Q, Table 2's ±) says how much another run over
the SAME tasks would differ. The bootstrap intervals say how much OTHER tasks would differ. The runs of an agent without
randomness are identical: its error over runs is 0, and only the interval over tasks says anything.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bestofq.core.decision import DECIDED
from bestofq.core.errors import InputError
from bestofq.core.frozen import FrozenModel
from bestofq.store.records import EpisodeSummary
from bestofq.store.tally import Tally

RESAMPLES = 10_000
LEVEL = 0.95
_ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
_NORMAL = NormalDist()
_DRAWS_AT_ONCE = 2_000_000
_KEPT_DRAWS = 20_000_000  # a byte each
_ROWS_A_KIND = 50  # alike rows, from which on drawing kinds is faster than drawing rows
_REPEATS = 2**32  # more than a run has
_ALIKE = 1e-9  # resamples that differ by less do by rounding only

Span = tuple[float, float]  # the least and the most that a task's own value can be
UNIT: Span = (0.0, 1.0)
SIGNED: Span = (-1.0, 1.0)

Doubles = NDArray[np.float64]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Attempt(NamedTuple):
    """One finished episode, as far as statistics need it."""

    task: Hashable
    run: Hashable
    success: bool
    steps: int


class Estimate(FrozenModel):
    """A mean, and its standard error over runs: the standard deviation of their means (n - 1) / √runs."""

    mean: float
    error: float | None  # None with fewer than two runs
    runs: int


class Interval(FrozenModel):
    """A bootstrap interval at `LEVEL` (`bca`), or `clopper_pearson_interval`."""

    low: float
    high: float


class Measure(FrozenModel):
    """A number with its interval; None where it is undefined (0 of 0)."""

    value: float | None
    interval: Interval | None = None
    error: float | None = None  # standard error over runs, where it is shown beside the interval


class PairedDifference(FrozenModel):
    """One agent's measure minus another's, on the `tasks` that both did, with its interval."""

    mean: float
    low: float
    high: float
    tasks: int

    @property
    def clear(self) -> bool:
        return self.low > 0 or self.high < 0


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by their keys, both in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


class Tries(NamedTuple):
    """Attempts counted by task and run [T, R], both in the order in which they come."""

    tasks: Sequence[Hashable]
    done: Doubles
    won: Doubles
    steps: Doubles  # of those that succeeded

    @classmethod
    def of(cls, attempts: Sequence[Attempt]) -> "Tries":
        tasks, runs = ({key: i for i, key in enumerate(distinct(a[at] for a in attempts))} for at in (0, 1))
        rows = [(tasks[a.task], runs[a.run], a.success, a.steps) for a in attempts]
        return cls.of_counts([*tasks], len(runs), np.array(rows, dtype=np.int64).reshape(-1, 4))

    @classmethod
    def of_counts(cls, tasks: Sequence[Hashable], runs: int, rows: NDArray[np.int64]) -> "Tries":
        """From rows [E, 4]: the indices of task and run, success, steps."""
        task, run, won, steps = rows.T
        place, shape = task * runs + run, (len(tasks), runs)
        weights = (None, won, won * steps)
        tables = (np.bincount(place, weight, len(tasks) * runs).astype(np.float64) for weight in weights)
        return cls(tasks, *(table.reshape(shape) for table in tables))

    @classmethod
    def of_tallies(cls, tallies: Sequence[Tally]) -> "Tries":
        """The attempts whose outcomes tell how the agent did. A run is one repeat in one run of a store."""
        names = distinct((t.suite, task) for t in tallies for task in t.tasks)
        tasks = {name: i for i, name in enumerate(names)}
        runs = {key: i for i, key in enumerate(distinct((t.store, t.run) for t in tallies))}
        rows = [np.zeros((0, 4), np.int64)]
        for tally in tallies:
            at, repeat, outcome, _, steps = tally.attempts[tally.attempts[:, 2] < len(DECIDED)].T
            places = np.array([tasks[tally.suite, task] for task in tally.tasks], np.int64)
            run = runs[tally.store, tally.run] * _REPEATS + repeat
            rows.append(np.stack([places[at], run, outcome == 0, steps], axis=1))
        every = np.concatenate(rows)
        known, every[:, 0] = np.unique(every[:, 0], return_inverse=True)
        found, every[:, 1] = np.unique(every[:, 1], return_inverse=True)
        return cls.of_counts([names[i] for i in known], len(found), every)

    def __bool__(self) -> bool:
        return bool(self.tasks)

    @property
    def rates(self) -> Doubles:
        """By task [T], the share of its attempts that succeeded."""
        return np.asarray(self.won.sum(axis=1) / self.done.sum(axis=1))


def attempts_of(episodes: Iterable[EpisodeSummary]) -> Tries:
    """The episodes whose outcome tells how the agent did, as statistics need them."""
    return Tries.of([Attempt((e.suite, e.task), (e.run, e.repeat), e.success, e.steps) for e in episodes if e.decided])


def mean_over_runs(means: Sequence[float] | Doubles) -> Estimate:
    """The estimate from one mean per run. InputError without any."""
    if not len(means):
        raise InputError("there is no finished run to average: at least 1 is needed")
    error = float(np.std(means, ddof=1)) / sqrt(len(means)) if len(means) > 1 else None
    return Estimate(mean=float(np.mean(means)), error=error, runs=len(means))


def success_rate(tries: Tries) -> Estimate:
    """Success in [0, 1] (Table 2): the share of each task's attempts that succeeded, then the mean over tasks.

    The standard error over runs is √(Σ s_r² / ((Σ n_r)² − Σ n_r²)). s_r is how much more often run r succeeded than the
    mean of its n_r tasks, so the tasks' difficulty plays no part. For runs of the same tasks it equals the usual one.
    Tasks done once say nothing; None without any others. InputError without an attempt.
    """
    if not tries:
        raise InputError("there is no finished run to average: at least 1 is needed")
    again = tries.done.sum(axis=1) > 1
    excess = (tries.won - tries.done * tries.rates[:, None])[again].sum(axis=0)
    number = tries.done[again].sum(axis=0)
    pairs = number.sum() ** 2 - (number**2).sum()
    error = sqrt((excess**2).sum() / pairs) if pairs else None
    return Estimate(mean=float(tries.rates.mean()), error=error, runs=tries.done.shape[1])


def steps_for_success(tries: Tries) -> Estimate | None:
    """Steps of successful episodes (Table 2): their mean in each run, then the mean over the runs that have any. None
    if nothing succeeded. An agent that solves only easy tasks looks faster, so compare with care."""
    won, steps = tries.won.sum(axis=0), tries.steps.sum(axis=0)
    return mean_over_runs(steps[won > 0] / won[won > 0]) if won.any() else None


def steps_interval(tries: Tries) -> Interval | None:
    """The interval of `steps_for_success` over tasks; None if at most one was solved."""
    counts = np.stack([tries.steps, tries.won], axis=2)  # [T, R, 2]

    def statistic(sums: Doubles) -> Doubles:  # [B, R * 2] -> [B]
        means = quotient(sums.reshape(len(sums), -1, 2))
        known = ~np.isnan(means)
        return share(np.where(known, means, 0.0).sum(axis=1), known.sum(axis=1))

    return measure(counts.reshape(len(counts), -1), statistic).interval


Counts = Mapping[Any, Doubles | tuple[float, float]]  # by task, K numbers that are added up over tasks


def measure(counts: Doubles, statistic: Callable[[Doubles], Doubles], *, span: Span | None = None) -> Measure:
    """A statistic of summed counts, with its `bca` interval. T clusters' counts [T, K] are drawn T times with
    replacement and added up; `statistic` turns the sums [B, K] into [B], with NaN if it is undefined.

    Resamples in which it is undefined are ignored. If all resamples are alike: `clopper_pearson_interval` over clusters
    with a value if `span` is given, else none for one cluster.
    """
    total = counts.sum(axis=0, keepdims=True)
    if len(counts) == 0 or np.isnan(value := float(statistic(total)[0])):
        return Measure(value=None)
    drawn = statistic(resample(counts, RESAMPLES))
    interval = bca(drawn[~np.isnan(drawn)], value, statistic(total - counts))
    if not alike(interval):
        return Measure(value=value, interval=interval)
    own = int((~np.isnan(statistic(counts))).sum())
    if span is None:
        return Measure(value=value, interval=None if own < 2 else interval)
    return Measure(value=value, interval=clopper_pearson_interval(value, own, span))


def clopper_pearson_interval(value: float, tasks: int, span: Span = UNIT) -> Interval:
    """The interval of the mean if each of T tasks has the same value.

    Then at most 1 − 0.025^(1/T) of all tasks have another value (Clopper and Pearson 1934). If these were all at an end
    of `span`, the mean would lie that share of the way towards it. For a share of 0 or 1 this is the exact bound.
    """
    away = 1 - ((1 - LEVEL) / 2) ** (1 / max(1, tasks))
    return Interval(low=value - away * (value - span[0]), high=value + away * (span[1] - value))


def share(part: Doubles, whole: Doubles) -> Doubles:
    """part / whole, NaN where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole != 0))


def quotient(sums: Doubles) -> Doubles:
    """The first by the second column of [..., 2]; NaN where the second is 0."""
    return share(sums[..., 0], sums[..., 1])


class Quantity(NamedTuple):
    """What is measured of an agent: `statistic` of counts [K] by task, added up over tasks. `span`: as in `measure`."""

    counts: Counts
    span: Span | None = None
    statistic: Callable[[Doubles], Doubles] = quotient

    @property
    def value(self) -> float | None:
        """None where it is undefined."""
        if not self.counts:
            return None
        found = float(self.statistic(np.array([*self.counts.values()]).sum(axis=0, keepdims=True))[0])
        return None if np.isnan(found) else found

    @property
    def measure(self) -> Measure:
        """With its interval over tasks; None where it is undefined."""
        return measure(np.array([*self.counts.values()], dtype=np.float64), self.statistic, span=self.span)

    @property
    def difference(self) -> PairedDifference | None:
        """As one, where it is one already; None where it is undefined or has no interval."""
        found = self.measure
        if found.value is None or found.interval is None:
            return None
        return PairedDifference(mean=found.value, tasks=len(self.counts), **dict(found.interval))


def task_rates(tries: Tries) -> dict[Hashable, float]:
    """By task, the share of its attempts that succeeded."""
    return dict(zip(tries.tasks, tries.rates.tolist(), strict=True))


def success_interval(tries: Tries) -> Interval:
    """The interval of success over tasks, with runs averaged; `clopper_pearson_interval` if all tasks are alike."""
    found = measure(np.stack([tries.rates, np.ones_like(tries.rates)], axis=1), quotient, span=UNIT).interval
    if found is None:
        raise InputError("there is no finished task to give an interval of: at least 1 is needed")
    return found


def paired_difference(ours: Tries, theirs: Tries) -> PairedDifference | None:
    """Success of `ours` minus that of `theirs` on the tasks of both, with runs averaged; `clopper_pearson_interval` if
    all tasks differ alike. None if they have no task in common."""
    other = task_rates(theirs)
    both = {task: (rate - other[task], 1.0) for task, rate in task_rates(ours).items() if task in other}
    return Quantity(both, SIGNED).difference


def resample(counts: Doubles, resamples: int, rng: np.random.Generator | None = None) -> Doubles:
    """Sums [resamples, K] of as many rows [T, K], drawn with replacement; without `rng` always the same draws."""
    number, shown = len(counts), Counter(map(bytes, counts + 0.0))
    if len(shown) * _ROWS_A_KIND <= number:  # how often each kind is drawn is multinomial: the same, and far sooner
        kinds = np.frombuffer(b"".join(shown)).reshape(len(shown), -1)
        order, often = np.lexsort(kinds.T[::-1]), np.array([*shown.values()])
        drawn = (rng or np.random.default_rng(0)).multinomial(number, often[order] / number, size=resamples)
        return np.asarray(drawn @ kinds[order])
    if rng is None and number * resamples <= _KEPT_DRAWS:
        draws: Iterable[NDArray[Any]] = _keep_draws(number, resamples)
    else:
        draws = _count_draws(number, resamples, rng or np.random.default_rng(0))
    return np.concatenate([times.astype(np.float64) @ counts for times in draws])


def _count_draws(number: int, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """How often each row is drawn [resamples, T], in parts, so that memory stays bounded."""
    at_once = max(1, _DRAWS_AT_ONCE // number)
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        at = rng.integers(number, size=(size, number)) + number * np.arange(size)[:, None]
        yield np.bincount(at.ravel(), minlength=at.size).reshape(at.shape).astype(np.uint8)


@lru_cache(maxsize=2)
def _keep_draws(number: int, resamples: int) -> list[NDArray[np.uint8]]:
    """The tables of a report are about the same tasks, so they share their draws."""
    return [*_count_draws(number, resamples, np.random.default_rng(0))]


def alike(interval: Interval) -> bool:
    """Whether all its resamples were the same, except for rounding."""
    return interval.high - interval.low <= _ALIKE * max(1.0, abs(interval.high))


def bca(drawn: Doubles, value: float, left_out: Doubles) -> Interval:
    """The bias-corrected and accelerated interval at `LEVEL` (Efron 1987) of a statistic's `value`.

    `drawn` [B] are its values for the resamples, `left_out` [T] those without one cluster each. The percentiles are
    moved by the distance of the resamples' median from the value, and by the skew over the clusters. They are not
    moved if it is undefined without a cluster.
    """
    if np.isnan(left_out).any():
        return percentiles(drawn)
    rounding = _ALIKE * max(1.0, abs(value))
    below = float(np.mean(drawn < value - rounding) + np.mean(drawn <= value + rounding)) / 2
    away = left_out.mean() - left_out
    skew = float((away**3).sum() / (6 * max((away**2).sum(), rounding**2) ** 1.5))
    shift = _NORMAL.inv_cdf(min(max(below, 0.5 / len(drawn)), 1 - 0.5 / len(drawn)))
    moved = [shift + _NORMAL.inv_cdf(end) for end in _ENDS]
    return percentiles(drawn, [_NORMAL.cdf(shift + z / (1 - skew * z)) for z in moved])


def percentiles(drawn: Doubles, ends: Sequence[float] = _ENDS) -> Interval:
    """The interval between two percentiles."""
    low, high = np.quantile(drawn, ends)
    return Interval(low=float(low), high=float(high))
