"""How sure success is where a method was trained several times: intervals over other tasks and other trainings.

With three models a bootstrap over them is far too narrow (its variance is 2/3 of the unbiased one, and its resamples
never leave the three). So tasks are drawn with replacement, and to each draw's mean comes the models' standard error
times a draw of Student's t with models − 1 degrees of freedom: with all tasks alike this is the t-interval over models,
with all models alike the bootstrap over tasks. The chance of a single episode is in both parts, so the interval is
somewhat too wide. `Attempt.run` is the model; one model alone says nothing about another training, and its interval is
that over tasks.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from bestofq.reports import stats
from bestofq.reports.stats import SIGNED, UNIT, Attempt, Doubles, Interval, Measure, PairedDifference, Span, Tries


def success_interval(attempts: Sequence[Attempt], *, resamples: int = stats.RESAMPLES) -> Interval:
    """The interval of success, within [0, 1]; InputError without an attempt."""
    tries = Tries.of(attempts)
    if len(_models(attempts)) < 2:
        return stats.success_interval(tries)
    (drawn,) = _drawn([attempts], tries.tasks, resamples)
    return _bounded(drawn, float(tries.rates.mean()), len(tries.tasks))


def mean(values: Sequence[tuple[Hashable, Hashable, float]], *, resamples: int = stats.RESAMPLES) -> Measure:
    """The mean of (task, model, value) over tasks, with its interval; InputError without a value. Steps, say, which
    are positive and have no upper bound: where all tasks are alike there is no interval."""
    by_task, by_model = defaultdict(list), defaultdict(list)
    for task, model, value in values:
        by_task[task].append(value)
        by_model[model].append(value)
    over = stats.mean_over_runs([float(np.mean(found)) for found in by_model.values()])
    means = np.array([[np.mean(found)] for found in by_task.values()])  # [T, 1]
    found = Measure(value=float(np.mean(means)), error=over.error)
    if len(means) < 2:
        return found
    rng = np.random.default_rng(0)
    drawn = stats.resample(means, resamples, rng)[:, 0] / len(means)
    if over.error is not None:
        drawn = drawn + over.error * rng.standard_t(over.runs - 1, size=resamples)
    bounds = stats.percentiles(np.maximum(drawn, 0.0))
    return found if stats.alike(bounds) else found.model_copy(update={"interval": bounds})


def paired_difference(
    ours: Sequence[Attempt], theirs: Sequence[Attempt], *, resamples: int = stats.RESAMPLES
) -> PairedDifference | None:
    """Success of `ours` minus that of `theirs`, paired by task; None when they have no task in common.

    Models are not paired: where both have several, each side's error is drawn on its own, which is too wide where the
    n-th models of both were trained alike.
    """
    if len(_models(ours)) < 2 and len(_models(theirs)) < 2:
        return stats.paired_difference(Tries.of(ours), Tries.of(theirs))
    mine, other = (stats.task_rates(Tries.of(attempts)) for attempts in (ours, theirs))
    common = [task for task in mine if task in other]
    if not common:
        return None
    mean = float(np.mean([mine[task] - other[task] for task in common]))
    drawn, against = _drawn([ours, theirs], common, resamples)
    found = _bounded(drawn - against, mean, len(common), SIGNED)
    return PairedDifference(mean=mean, low=found.low, high=found.high, tasks=len(common))


def _drawn(methods: Sequence[Sequence[Attempt]], tasks: Sequence[Hashable], resamples: int) -> list[Doubles]:
    """Each method's success [resamples] on the same drawn tasks, its models' error added, within [0, 1]."""
    rng = np.random.default_rng(0)
    rates = [stats.task_rates(Tries.of(attempts)) for attempts in methods]
    table = np.array([[of_method[task] for of_method in rates] for task in tasks])  # [T, methods]
    means = stats.resample(table, resamples, rng) / len(tasks)  # [B, methods]
    kept = set(tasks)
    found = []
    for attempts, drawn in zip(methods, means.T, strict=True):
        success = stats.success_rate(Tries.of([a for a in attempts if a.task in kept]))
        if success.error is not None:
            drawn = drawn + success.error * rng.standard_t(success.runs - 1, size=resamples)
        found.append(np.clip(drawn, 0, 1))
    return found


def _bounded(drawn: Doubles, mean: float, tasks: int, span: Span = UNIT) -> Interval:
    """The `percentiles` of means of resampled tasks; where they are all alike, `clopper_pearson_interval`."""
    found = stats.percentiles(drawn)
    return stats.clopper_pearson_interval(mean, tasks, span) if stats.alike(found) else found


def _models(attempts: Sequence[Attempt]) -> set[Hashable]:
    return {attempt.run for attempt in attempts}
