"""What choices alone would change, by hand arithmetic and where the truth is known; and how Q ranks."""

import numpy as np
import pytest
from logged_choices import SMALL, log_of, played

from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Bools
from bestofq.reports.estimate import LEAST_TASKS, estimate, verdict_line
from bestofq.reports.off_policy import auc, first, greedy, known, local_approximation


def test_q_chooses_among_the_first_candidates_alone() -> None:
    assert greedy(SMALL, 2).argmax(axis=1).tolist() == [1, 0, 1, 0, 1, 0]
    assert greedy(SMALL).argmax(axis=1).tolist() == [1, 0, 1, 0, 2, 0]


def test_what_each_choice_alone_would_change() -> None:
    # by step: 2 (1 - 1/2) + 0, -2 (0 - 1/2), 0 + 4 (1 - 1), 0; half succeed, and both with a second step
    found = local_approximation(SMALL, greedy(SMALL), first(SMALL))
    assert found.value == pytest.approx((1 + 1) / 4)
    assert local_approximation(SMALL, greedy(SMALL), greedy(SMALL)).value == 0


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


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_log_in_which_some_candidates_had_no_chance_gives_no_verdict(epsilon: float) -> None:
    log = log_of(*((f"t{i}", i % 2 == 0, [((0.9 - i % 2, 0.5), round(epsilon))]) for i in range(40)), epsilon=epsilon)
    found = estimate(log)
    assert found.verdict == "not known"
    assert "0 < epsilon < 1" in verdict_line(found)
    assert known(log_of(("a", True, [((0.5,), 0)]), epsilon=epsilon)).all()  # one candidate alone is certain


@pytest.mark.parametrize(
    ("tasks", "low", "verdict"),
    [
        (1, 1 - 2 * 0.975, "not enough episodes"),  # at most 1 - 0.025^(1/T) of all tasks are others, at the other end
        (2, 1 - 2 * 0.842, "not enough episodes"),
        (5, 1 - 2 * 0.522, "not enough episodes"),
        (6, 1 - 2 * 0.459, "deploy"),
    ],
)
@pytest.mark.parametrize("gain", [1, -1])
def test_tasks_that_are_all_alike_are_no_certainty(tasks: int, low: float, verdict: str, gain: int) -> None:
    """Each once won and once lost, by what Q would choose (or by the first candidate) and by the other."""
    log = log_of(*((f"t{i}", won == (gain > 0), [((0.1, 0.9), int(won))]) for i in range(tasks) for won in (0, 1)))
    found = estimate(log)
    assert found.lift.mean == gain
    assert sorted((gain * found.lift.low, gain * found.lift.high)) == pytest.approx([low, 1], abs=0.001)
    assert found.verdict == ("do not deploy" if (gain, verdict) == (-1, "deploy") else verdict)
    said = verdict_line(found)
    assert ("collect more tasks" in said) == (tasks < LEAST_TASKS)
    assert ("of one task alone" in said) == (tasks == 1)


def test_what_the_logs_never_tried_is_not_chosen() -> None:
    """The best candidate by Q had no chance in half of the steps: there the first one is what is estimated."""
    log = log_of(*((f"t{i}", bool(c), [((0.1, 0.9, 0.5), c)]) for i in range(8) for c in (0, 2)))
    log.propensity[:] = (0.5, 0.0, 0.5)
    assert greedy(log).argmax(axis=1).tolist() == [2] * 16
    log.propensity[8:] = (1.0, 0.0, 0.0)
    assert greedy(log).argmax(axis=1).tolist() == [2] * 8 + [0] * 8
    assert known(log).all()


def test_where_every_episode_ended_alike_nothing_is_known_of_a_difference() -> None:
    found = estimate(log_of(*((f"t{i}", True, [((0.1, 0.9), i % 2)]) for i in range(10)))).lift
    assert (found.mean, found.low, found.high) == pytest.approx((0, -0.308, 0.308), abs=0.001)


def test_few_tasks_give_no_verdict_though_they_differ() -> None:
    won = [(f"t{i}", bool(c), [((0.1, 0.9), c)]) for i in range(3) for c in (0, 1)]
    found = estimate(log_of(*won, ("t0", True, [((0.1, 0.9), 1)])))
    assert found.lift.clear
    assert found.verdict == "not enough episodes"


def test_joined_logs_are_one_after_the_other() -> None:
    narrow = log_of(("c", True, [((0.5, 0.1), 0)]))
    both = LoggedChoices.concatenate([narrow, SMALL])
    assert both.task == ("c", "a", "a", "b", "b")
    assert both.episode.tolist() == [0, 1, 1, 2, 3, 3, 4]
    assert both.q[0].tolist() == pytest.approx([0.5, 0.1, -np.inf])
    assert local_approximation(both, greedy(both), first(both)).value == pytest.approx(
        (2 * (1 - 3 / 5) + 2 * 3 / 5) / 5  # three of five succeed
    )


def test_auc_is_the_share_of_pairs_ranked_right_ties_by_half() -> None:
    # taken Q: successes 0.9 0.8 0.7 0.3, failures 0.1 0.9; pairs right: 1 + 0.5 (0.9 and 0.9), else all above 0.1
    assert auc(SMALL).value == pytest.approx((4 + 0.5) / 8)


def test_the_difference_is_that_of_playing() -> None:
    """By the tree, the others' choices being the log's (right with 0.5, so that 0.75 go on or succeed): 0.8 against 0.5
    of the choices right, each of which changes 0.5 · 0.75 of success, at two steps."""
    log = played("explore", 1500, 1)
    lift = local_approximation(log, greedy(log), first(log)).difference
    assert lift.mean == pytest.approx(2 * 0.3 * 0.5 * 0.75, abs=0.06)
    assert lift.low < 0.9**2 - 0.75**2 < lift.high
    assert lift.low > 0
