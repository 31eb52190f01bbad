import numpy as np
import pytest

from bestofq.core.errors import InputError
from bestofq.reports import stats
from bestofq.reports.judged import JudgeError, corrected, corrected_table
from bestofq.reports.stats import Attempt


def attempts(won: int, of: int) -> list[Attempt]:
    return [Attempt(task=n, run=0, success=n < won, steps=1) for n in range(of)]


def error(yes: int, false_yes: int, false_no: int, no: int) -> JudgeError:
    """So many true and false positives, false and true negatives, an episode a task."""
    cells = [(1.0, 0.0, 0.0, 0.0)] * yes + [(0.0, 1.0, 0.0, 0.0)] * false_yes
    cells += [(0.0, 0.0, 1.0, 0.0)] * false_no + [(0.0, 0.0, 0.0, 1.0)] * no
    return JudgeError(judge="j", counts=np.array(cells))


def test_success_is_corrected_by_hand() -> None:
    # sensitivity 0.9, specificity 0.8: (0.55 + 0.8 - 1) / 0.7 = 0.5
    found = corrected("a", attempts(55, 100), error(90, 20, 10, 80))
    assert found.said.value == pytest.approx(0.55)
    assert found.true.value == pytest.approx(0.5)
    assert found.defined == 1.0
    assert found.said.interval is not None
    assert found.true.interval is not None
    said, true = found.said.interval, found.true.interval
    assert true.high - true.low > (said.high - said.low) / 0.7  # the judge's own error on top
    assert found.difference is None


def test_a_judge_that_was_not_seen_to_err_may_err_all_the_same() -> None:
    few, many = (corrected("a", attempts(30, 100), error(n, 0, 0, n)) for n in (5, 5000))
    assert few.true.value == many.true.value == pytest.approx(0.3)
    assert few.true.interval is not None
    assert many.true.interval is not None
    assert many.said.interval is not None
    assert many.true.interval.low == pytest.approx(many.said.interval.low, abs=0.01)
    assert few.true.interval.low < many.true.interval.low - 0.1
    shown = error(5, 0, 0, 5).sensitivity.interval
    assert shown is not None
    assert (shown.low, shown.high) == pytest.approx((0.025**0.2, 1.0))


def test_a_difference_grows_as_the_judge_is_less_sure() -> None:
    found = corrected("a", attempts(60, 100), error(90, 20, 10, 80), baseline=attempts(39, 100))
    assert found.difference is not None
    assert found.difference.mean == pytest.approx(0.21 / 0.7)
    assert found.difference.tasks == 100
    assert found.difference.clear
    (texts,) = corrected_table([found], error(90, 20, 10, 80), {}).texts()
    assert texts[3].startswith("+30.0 [")
    assert texts[4].startswith("90.0 [")


@pytest.mark.parametrize(
    ("won", "lost", "of", "mean", "low", "high"),
    [
        # identical on 10 tasks: at most 1 - 0.025^(1/10) = 0.308 differ, over 0.8
        (5, 5, 10, 0.0, -0.308 / 0.8, 0.308 / 0.8),
        # all against none: 1 - 2 x 0.308 = 0.383 said at least, over 0.8
        (10, 0, 10, 1.0, 0.383 / 0.8, 1.0),
        (1, 0, 1, 1.0, -1.0, 1.0),  # one task: 1 - 2 x 0.975 = -0.95, over 0.8: nothing is known
    ],
)
def test_a_difference_alike_in_all_tasks_is_no_certainty(
    won: int, lost: int, of: int, mean: float, low: float, high: float
) -> None:
    judge = error(90_000, 10_000, 10_000, 90_000)  # sensitivity = specificity = 0.9, all but known
    found = corrected("a", attempts(won, of), judge, baseline=attempts(lost, of)).difference
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((mean, low, high), abs=0.005)
    assert found.clear is (low > 0)
    doubtful = corrected("a", attempts(won, of), error(90, 10, 10, 90), baseline=attempts(lost, of)).difference
    assert doubtful is not None
    assert doubtful.low < found.low or found.low == -1
    assert doubtful.high > found.high or found.high == 1


def test_what_cannot_be_corrected_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"no better than chance \(sensitivity 0.50, specificity 0.50\)"):
        corrected("a", attempts(5, 10), error(5, 5, 5, 5))
    with pytest.raises(InputError, match="no better than chance"):
        corrected("a", attempts(5, 10), error(0, 0, 0, 9))  # no true success: sensitivity is not known
    with pytest.raises(InputError, match="no judged episode of a"):
        corrected("a", [], error(9, 1, 1, 9))


def test_a_doubtful_judge_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 500)
    doubtful = error(3, 2, 2, 3)
    found = corrected("a", attempts(5, 10), doubtful)
    assert 0.1 < found.defined < 0.99
    assert any("no better than chance in" in note for note in corrected_table([found], doubtful, {}).notes)


def test_the_interval_covers_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 benchmarks of 150 tasks with true success 0.4, judged with sensitivity 0.85 and specificity 0.9, both
    measured on 120 other episodes."""
    monkeypatch.setattr(stats, "RESAMPLES", 400)
    rng = np.random.default_rng(5)
    hits = 0

    def says(truth: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        return np.where(truth, rng.random(len(truth)) < 0.85, rng.random(len(truth)) < 0.1)

    for _ in range(120):
        told = says(rng.random(150) < 0.4)
        truth = rng.random(120) < 0.5
        said = says(truth)
        judge = error(
            int((truth & said).sum()),
            int((~truth & said).sum()),
            int((truth & ~said).sum()),
            int((~truth & ~said).sum()),
        )
        tried = [Attempt(task=n, run=0, success=bool(won), steps=1) for n, won in enumerate(told)]
        interval = corrected("a", tried, judge).true.interval
        assert interval is not None
        hits += interval.low <= 0.4 <= interval.high
    assert 0.90 <= hits / 120 <= 0.99
