"""How sure success is where a method was trained several times: intervals over other tasks and other trainings.

With three models a bootstrap over them is far too narrow (its variance is 2/3 of the unbiased one, and its resamples
never leave the three). So tasks are drawn with replacement, and to each draw's mean comes the models' standard error
times a draw of Student's t with models − 1 degrees of freedom: with all tasks alike this is the t-interval over models,
with all models alike the bootstrap over tasks. The chance of a single episode is in both parts, so the interval is
somewhat too wide. `Attempt.run` is the model; one model alone says nothing about another training, and its interval is
that over tasks.
"""

from collections.abc import Hashable, Sequence
from operator import itemgetter

import numpy as np

from bestofq.reports import stats
from bestofq.reports.stats import SIGNED, UNIT, Attempt, Doubles, Interval, Measure, PairedDifference, Span, Tries


def success_interval(attempts: Sequence[Attempt]) -> Interval:
    """The interval of success, within [0, 1]; InputError without an attempt."""
    tries = Tries.of(attempts)
    if _has_one_model(tries):
        return stats.success_interval(tries)
    (drawn,) = _draw_success([attempts], tries.tasks)
    return _bounded(drawn, float(tries.rates.mean()), len(tries.tasks))


def mean(values: Sequence[tuple[Hashable, Hashable, float]]) -> Measure:
    """The mean of (task, model, value) over tasks, with its interval; InputError without a value. Steps, say, which
    are positive and have no upper bound: where all tasks are alike there is no interval."""
    by_task, by_model = (
        [float(np.mean([one[2] for one in some])) for some in stats.group_by(values, itemgetter(at)).values()]
        for at in (0, 1)
    )
    over = stats.mean_over_runs(by_model)
    found = Measure(value=float(np.mean(by_task)), error=over.error)
    if len(by_task) < 2:
        return found
    (drawn,) = _draw_means(np.array(by_task)[:, None], [over])
    bounds = stats.percentiles(np.maximum(drawn, 0.0))
    return found if stats.alike(bounds) else found.model_copy(update={"interval": bounds})


def paired_difference(ours: Sequence[Attempt], theirs: Sequence[Attempt]) -> PairedDifference | None:
    """Success of `ours` minus that of `theirs`, paired by task; None when they have no task in common.

    Models are not paired: where both have several, each side's error is drawn on its own, which is too wide where the
    n-th models of both were trained alike.
    """
    both = [Tries.of(attempts) for attempts in (ours, theirs)]
    if all(map(_has_one_model, both)):
        return stats.paired_difference(*both)
    mine, other = map(stats.task_rates, both)
    common = [task for task in mine if task in other]
    if not common:
        return None
    mean = float(np.mean([mine[task] - other[task] for task in common]))
    drawn, against = _draw_success([ours, theirs], common)
    found = _bounded(drawn - against, mean, len(common), SIGNED)
    return PairedDifference(mean=mean, low=found.low, high=found.high, tasks=len(common))


def _draw_success(methods: Sequence[Sequence[Attempt]], tasks: Sequence[Hashable]) -> Doubles:
    """Each method's success [M, B] on the same drawn tasks, its models' error added, within [0, 1]."""
    kept = set(tasks)
    tries = [Tries.of([one for one in attempts if one.task in kept]) for attempts in methods]
    rates = [stats.task_rates(of_method) for of_method in tries]
    table = np.array([[of_method[task] for of_method in rates] for task in tasks])
    return np.clip(_draw_means(table, [stats.success_rate(of_method) for of_method in tries]), 0, 1)


def _draw_means(values: Doubles, overs: Sequence[stats.Estimate]) -> Doubles:
    """The means [M, B] of resampled tasks' values [T, M], the models' error added to each."""
    rng = np.random.default_rng(0)
    drawn = stats.resample(values, stats.RESAMPLES, rng).T / len(values)
    for row, over in zip(drawn, overs, strict=True):
        if over.error is not None:
            row += over.error * rng.standard_t(over.runs - 1, size=stats.RESAMPLES)
    return drawn


def _bounded(drawn: Doubles, mean: float, tasks: int, span: Span = UNIT) -> Interval:
    """The `percentiles` of means of resampled tasks; where they are all alike, `clopper_pearson_interval`."""
    found = stats.percentiles(drawn)
    return stats.clopper_pearson_interval(mean, tasks, span) if stats.alike(found) else found


def _has_one_model(tries: Tries) -> bool:
    return len(tries.done.T) < 2
