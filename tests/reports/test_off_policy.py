"""Off-policy estimates by hand arithmetic, and where the truth is known."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Bools
from bestofq.reports import off_policy
from bestofq.reports.off_policy import effective_episodes, first, greedy, known, ratios, weights
from bestofq.reports.ranks import auc
from bestofq.reports.stats import Doubles, Quantity

Estimator = Callable[[LoggedChoices, Doubles], Quantity]
STEP = tuple[tuple[float, ...], int]
"""Q of the candidates, and the one taken."""


def log_of(*episodes: tuple[str, bool, Sequence[STEP]], epsilon: float = 0.5) -> LoggedChoices:
    """Of the exploring agent: task, success and steps of each episode; with two candidates either is taken alike."""
    steps = [(number, *step) for number, (_, _, own) in enumerate(episodes) for step in own]
    width = max(len(q) for _, q, _ in steps)

    def row(values: Sequence[float], beyond: float) -> list[float]:
        return [*values, *[beyond] * (width - len(values))]

    others = [max(1, len(q) - 1) for _, q, _ in steps]
    probable = [
        [1.0] if len(q) == 1 else [1 - epsilon, *[epsilon / n] * n] for (_, q, _), n in zip(steps, others, strict=True)
    ]
    return LoggedChoices(
        episode=np.array([number for number, _, _ in steps]),
        task=tuple(task for task, _, _ in episodes),
        success=np.array([won for _, won, _ in episodes]),
        tokens=np.full(len(episodes), 10, np.float32),
        usd=np.full(len(episodes), 0.5, np.float32),
        q=np.array([row(q, -np.inf) for _, q, _ in steps], np.float32),
        value=np.zeros(len(steps), np.float32),
        chosen=np.array([taken for _, _, taken in steps]),
        propensity=np.array([row(p, 0.0) for p in probable], np.float32),
    )


SMALL = log_of(
    ("a", True, [((0.1, 0.9), 1), ((0.8, 0.2), 0)]),  # as Q would: 2 · 2
    ("a", False, [((0.1, 0.9), 0)]),  # not as Q would
    ("b", True, [((0.7,), 0), ((0.1, 0.2, 0.3), 2)]),  # as Q would: 1 · 4
    ("b", False, [((0.9, 0.1), 0)]),  # as Q would: 2
)


def test_ratios_are_the_target_s_probability_by_the_log_s() -> None:
    assert ratios(SMALL, greedy(SMALL)).tolist() == [2, 2, 0, 1, 4, 2]
    assert weights(SMALL, greedy(SMALL)).tolist() == [2, 4, 0, 1, 4, 2]
    assert weights(SMALL, first(SMALL)).tolist() == [0, 0, 2, 1, 0, 2]
    assert effective_episodes(SMALL, greedy(SMALL)) == pytest.approx(100 / 36)


def test_q_chooses_among_the_first_candidates_alone() -> None:
    assert greedy(SMALL, 2).argmax(axis=1).tolist() == [1, 0, 1, 0, 1, 0]
    assert greedy(SMALL).argmax(axis=1).tolist() == [1, 0, 1, 0, 2, 0]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (off_policy.importance_sampling, (4 + 4) / 4),
        (off_policy.weighted_importance_sampling, (4 + 4) / (4 + 0 + 4 + 2)),
        (off_policy.per_decision_wis, (4 + 4) / (4 + 0 + 4 + 2)),  # at the second step: all have ended
    ],
)
def test_weighted_rewards_by_hand(of: Estimator, expected: float) -> None:
    assert of(SMALL, greedy(SMALL)).value == pytest.approx(expected)


def test_per_decision_weights_are_of_the_step_of_the_reward() -> None:
    early = log_of(("a", True, [((0.1, 0.9), 1)]), ("b", False, [((0.1, 0.9), 1), ((0.3, 0.1), 0)]))
    assert off_policy.per_decision_wis(early, greedy(early)).value == pytest.approx(2 / (2 + 2))
    assert off_policy.weighted_importance_sampling(early, greedy(early)).value == pytest.approx(2 / (2 + 4))


def test_what_each_choice_alone_would_change() -> None:
    # by step: 2 (1 - 1/2) + 0, -2 (0 - 1/2), 0 + 4 (1 - 1), 0; half succeed, and both with a second step
    found = off_policy.local_approximation(SMALL, greedy(SMALL), first(SMALL))
    assert found.value == pytest.approx((1 + 1) / 4)
    assert off_policy.local_approximation(SMALL, greedy(SMALL), greedy(SMALL)).value == 0


def test_choosing_what_is_always_chosen_is_the_logs_own_success() -> None:
    only = log_of(*((f"t{n}", n % 3 == 0, [((0.1 * n,), 0)] * 2) for n in range(12)))
    for of in ESTIMATORS:
        assert of(only, greedy(only)).value == pytest.approx(1 / 3, abs=0.01)


def test_episodes_whose_agent_does_not_tell_are_left_out() -> None:
    part = SMALL.propensity.copy()
    part[4] = np.nan
    mixed = LoggedChoices(**{name: getattr(SMALL, name) for name in LoggedChoices.__slots__} | {"propensity": part})
    kept: Bools = known(mixed)
    assert kept.tolist() == [True, True, False, True]
    left = mixed.of(kept)
    assert left.task == ("a", "a", "b")
    assert left.episode.tolist() == [0, 0, 1, 2]
    assert left.last.tolist() == [False, True, True, True]


def test_joined_logs_are_one_after_the_other() -> None:
    narrow = log_of(("c", True, [((0.5, 0.1), 0)]))
    both = LoggedChoices.joined([narrow, SMALL])
    assert both.task == ("c", "a", "a", "b", "b")
    assert both.episode.tolist() == [0, 1, 1, 2, 3, 3, 4]
    assert both.q[0].tolist() == pytest.approx([0.5, 0.1, -np.inf])
    assert weights(both, greedy(both)).tolist() == [2, 2, 4, 0, 1, 4, 2]


def test_auc_is_the_share_of_pairs_ranked_right_ties_by_half() -> None:
    # taken Q: successes 0.9 0.8 0.7 0.3, failures 0.1 0.9; pairs right: 1 + 0.5 (0.9 and 0.9), else all above 0.1
    assert auc(SMALL).value == pytest.approx((4 + 0.5) / 8)
    assert auc(SMALL, np.array([True, False, True, False, False, False])).value == 1
    assert auc(SMALL, np.array([True, False, False, False, False, False])).value is None


ESTIMATORS: tuple[Estimator, ...] = (
    off_policy.importance_sampling,
    off_policy.weighted_importance_sampling,
    off_policy.per_decision_wis,
    off_policy.fitted_q_evaluation,
    off_policy.doubly_robust,
    partial(off_policy.doubly_robust, weighted=True),
)


def played(agent: str, episodes: int, seed: int) -> LoggedChoices:
    """Two steps of two candidates, of which one is right; a wrong one fails at once by half. Q is right four times in
    five, the first candidate every other time. `agent`: explore, ranked or first."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(episodes):
        steps: list[STEP] = []
        won = True
        for _ in range(2):
            right = int(rng.integers(2))
            best = right if rng.random() < 0.8 else 1 - right
            taken = {"explore": int(rng.integers(2)), "ranked": best, "first": 0}[agent]
            steps.append(((0.6, 0.3) if best == 0 else (0.3, 0.6), taken))
            won = taken == right or rng.random() < 0.5
            if not won:
                break
        found.append((f"t{number // 2}", won, steps))
    return log_of(*found)


@pytest.mark.parametrize("of", ESTIMATORS)
def test_what_is_estimated_is_what_playing_brings(of: Estimator) -> None:
    """By the tree: Q is right with 0.8 and then goes on, else by half; the first candidate with 0.5."""
    log = played("explore", 1500, 1)
    ranked, alone = of(log, greedy(log)), of(log, first(log))
    assert ranked.value == pytest.approx(0.9**2, abs=0.05)
    assert alone.value == pytest.approx(0.75**2, abs=0.06)
    lift = ranked.minus(alone)
    assert lift is not None
    assert lift.low < 0.9**2 - 0.75**2 < lift.high
    assert lift.low > 0
