"""The other estimators, by hand arithmetic and where the truth is known."""

from collections.abc import Callable
from functools import partial

import pytest
from logged_choices import SMALL, played

from bestofq.core.logged import LoggedChoices
from bestofq.reports.off_policy import first, greedy
from bestofq.reports.stats import Doubles, Quantity
from experiments import estimators
from experiments.estimators import effective_episodes, ratios, weights

Estimator = Callable[[LoggedChoices, Doubles], Quantity]
ESTIMATORS: tuple[Estimator, ...] = (
    estimators.importance_sampling,
    estimators.weighted_importance_sampling,
    estimators.per_decision_wis,
    estimators.fitted_q_evaluation,
    estimators.doubly_robust,
    partial(estimators.doubly_robust, weighted=True),
)


def test_ratios_are_the_target_s_probability_by_the_log_s() -> None:
    assert ratios(SMALL, greedy(SMALL)).tolist() == [2, 2, 0, 1, 4, 2]
    assert weights(SMALL, greedy(SMALL)).tolist() == [2, 4, 0, 1, 4, 2]
    assert weights(SMALL, first(SMALL)).tolist() == [0, 0, 2, 1, 0, 2]
    assert effective_episodes(SMALL, greedy(SMALL)) == pytest.approx(100 / 36)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (estimators.importance_sampling, (4 + 4) / 4),
        (estimators.weighted_importance_sampling, (4 + 4) / (4 + 0 + 4 + 2)),
        (estimators.per_decision_wis, (4 + 4) / (4 + 0 + 4 + 2)),  # at the second step: all have ended
    ],
)
def test_weighted_rewards_by_hand(of: Estimator, expected: float) -> None:
    assert of(SMALL, greedy(SMALL)).value == pytest.approx(expected)


@pytest.mark.parametrize("of", ESTIMATORS)
def test_what_is_estimated_is_what_playing_brings(of: Estimator) -> None:
    """By the tree: Q is right with 0.8 and then goes on, else by half; the first candidate with 0.5."""
    log = played("explore", 1500, 1)
    ranked, alone = of(log, greedy(log)), of(log, first(log))
    assert ranked.value == pytest.approx(0.9**2, abs=0.05)
    assert alone.value == pytest.approx(0.75**2, abs=0.06)
    lift = ranked.minus(alone)
    assert lift.low < 0.9**2 - 0.75**2 < lift.high
    assert lift.low > 0
