import numpy as np
import pytest

from bestofq.reports import stats
from bestofq.reports.stats import Attempt
from experiments.agent_q import over_models


def attempts(*models: tuple[int, int]) -> list[Attempt]:
    """Of each model how many tasks it solves, the first ones, of how many."""
    return [
        Attempt(task=task, run=model, success=task < won, steps=1)
        for model, (won, of) in enumerate(models)
        for task in range(of)
    ]


def test_tasks_alike_leave_the_t_interval_over_models() -> None:
    # 0.4, 0.5 and 0.6 on whatever task: their error is 0.1 / √3, t of 2 degrees of freedom 4.303
    shares = (4, 5, 6)
    tried = [
        Attempt(task=task, run=(model, at), success=at < won, steps=1)
        for task in range(100)
        for model, won in enumerate(shares)
        for at in range(10)
    ]
    of_model = [a._replace(run=a.run[0]) for a in tried if isinstance(a.run, tuple)]
    found = over_models.success_interval(of_model)
    assert (found.low, found.high) == pytest.approx((0.5 - 4.303 * 0.0577, 0.5 + 4.303 * 0.0577), abs=0.02)


def test_a_difference_that_one_lucky_training_made_is_not_clear() -> None:
    ours, theirs = attempts((88, 200), (64, 200), (167, 200)), attempts((59, 200))
    over_tasks = stats.paired_difference(ours, theirs)
    found = over_models.paired_difference(ours, theirs)
    assert over_tasks.clear  # by tasks alone
    assert not found.clear
    assert found.mean == pytest.approx((44 + 32 + 83.5) / 300 - 0.295)
    # the error of 0.156 times 4.303 is 0.67: ours anywhere in [0, 1], less 0.295 give or take the tasks
    assert found.low == pytest.approx(-0.295, abs=0.07)
    assert found.high == pytest.approx(0.705, abs=0.07)


def test_what_is_alike_throughout_has_the_bounds_of_so_few_tasks() -> None:
    all_won = attempts((10, 10), (10, 10))
    found = over_models.success_interval(all_won)
    assert (found.low, found.high) == pytest.approx((0.025**0.1, 1.0))
    same = over_models.paired_difference(all_won, attempts((10, 10)))
    assert (same.low, same.high) == pytest.approx((0.025**0.1 - 1, 1 - 0.025**0.1))
    assert over_models.paired_difference(all_won, [Attempt(task="x", run=0, success=True, steps=1)]) is None


def test_the_interval_of_a_mean_is_over_tasks_and_over_models() -> None:
    steps = [(task, 0, 10 + 2 * (task % 2)) for task in range(100)]  # mean 11, deviation 1 over tasks
    alone = over_models.mean(steps)
    assert (alone.value, alone.error) == (11.0, None)
    assert (alone.interval.low, alone.interval.high) == pytest.approx((11 - 1.96 * 0.1, 11 + 1.96 * 0.1), abs=0.03)
    several = over_models.mean([(task, model, 10 + model) for task in range(100) for model in range(3)])
    assert (several.value, several.error) == (11.0, pytest.approx(1 / np.sqrt(3)))
    assert (several.interval.low, several.interval.high) == pytest.approx(
        (11 - 4.303 * 0.577, 11 + 4.303 * 0.577), abs=0.15
    )
    assert over_models.mean([("a", 0, 3.0)]).interval is None
