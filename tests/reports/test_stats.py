from itertools import zip_longest
from math import sqrt
from statistics import NormalDist

import numpy as np
import pytest
from report_nouns import PROVENANCE, record, task

from bestofq.core.errors import InputError
from bestofq.reports import stats
from bestofq.reports.reliability import pass_at, pass_variance
from bestofq.reports.report import gather
from bestofq.reports.stats import Attempt, Quantity, Tries
from bestofq.store.store import Store


def attempts(*runs: str, steps: int = 4) -> Tries:
    """One text a run, one letter a task: `1` success, `0` failure, `.` not done."""
    return Tries.of(
        [
            Attempt(task=task, run=run, success=letter == "1", steps=steps + task)
            for run, letters in enumerate(runs)
            for task, letter in enumerate(letters)
            if letter != "."
        ]
    )


def test_the_error_is_the_deviation_of_run_means_by_the_root_of_runs() -> None:
    found = stats.success_rate(attempts("1100", "1110", "1111"))  # means 0.5, 0.75, 1
    assert (found.mean, found.runs) == (0.75, 3)
    assert found.error == pytest.approx(0.25 / sqrt(3))
    assert stats.success_rate(attempts("10")).error is None
    with pytest.raises(InputError, match="no finished run"):
        stats.success_rate(attempts())


def test_a_run_that_did_fewer_tasks_does_not_move_the_mean_out_of_its_interval() -> None:
    tried = attempts("1111", "0...")
    assert stats.success_rate(tried).mean == (0.5 + 1 + 1 + 1) / 4
    bounds = stats.success_interval(tried)
    assert bounds.low <= stats.success_rate(tried).mean <= bounds.high


def test_a_run_that_is_not_complete_adds_no_error_by_the_tasks_it_has() -> None:
    """The third pass has been stopped after one task, which this agent always fails."""
    assert stats.success_rate(attempts("1010", "1010", ".0..")).error == 0
    complete = stats.success_rate(attempts("1100" * 25, "1110" * 25, "1111" * 25)).error
    stopped = stats.success_rate(attempts("1100" * 25, "1110" * 25, "1111" * 24 + "111.")).error
    assert stopped == pytest.approx(complete, rel=0.02)
    assert stats.success_rate(attempts("11..", "..00")).error is None  # other tasks, not another run of these


def test_the_error_over_unlike_runs_covers_what_chance_does() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random(40)
    means, errors = [], []
    for _ in range(300):
        runs = ["".join("01"[int(won)] for won in rng.random(40) < hard) for _ in range(6)]
        found = stats.success_rate(attempts(*runs[:4], *(run[:20] + "." * 20 for run in runs[4:])))
        means.append(found.mean)
        errors.append(found.error)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means), rel=0.15)


def test_steps_count_successes_only_and_runs_without_any_are_left_out() -> None:
    found = stats.steps_for_success(attempts("101", "010", "000", steps=10))  # (10 + 12) / 2 and 11
    assert (found.mean, found.error, found.runs) == (11.0, 0.0, 2)
    assert stats.steps_for_success(attempts("00")) is None


def test_a_difference_pairs_by_task_with_runs_averaged() -> None:
    ours = attempts("110", "100")  # tasks: 1, 0.5, 0
    theirs = attempts("010.", "0101")  # tasks: 0, 1, 0, (1: not ours)
    found = stats.paired_difference(ours, theirs)
    assert found.tasks == 3
    assert found.mean == pytest.approx((1 - 0.5 + 0) / 3)
    assert -0.5 <= found.low < 0 < found.high == 1.0  # of 27 equally likely draws one is -0.5 three times, one 1
    assert not found.clear
    assert stats.paired_difference(attempts("1."), attempts(".1")) is None


def test_pairing_takes_the_difficulty_of_tasks_out() -> None:
    rng = np.random.default_rng(0)
    easy = "".join(rng.choice(["0", "1"], 100))
    better = "".join("1" if number < 10 else letter for number, letter in enumerate(easy))
    found = stats.paired_difference(attempts(better), attempts(easy))
    assert found.clear
    own = stats.success_interval(attempts(easy))
    assert found.high - found.low < 0.75 * (own.high - own.low)


def test_tasks_that_all_came_out_alike_do_not_feign_certainty() -> None:
    assert stats.success_interval(attempts("000", "000")).low == 0.0
    assert stats.success_interval(attempts("000")).high == pytest.approx(0.7076, abs=1e-4)  # 1 - 0.025 ** (1 / 3)
    assert stats.success_interval(attempts("1")).low == pytest.approx(0.025)
    assert stats.success_interval(attempts("1")).high == 1.0
    half = stats.success_interval(attempts("10", "01"))  # each task half of the time: others need not be so
    away = 1 - 0.025**0.5
    assert (half.low, half.high) == pytest.approx((0.5 - 0.5 * away, 0.5 + 0.5 * away))
    same = stats.paired_difference(attempts("10"), attempts("10"))
    assert (same.mean, same.low, same.high) == pytest.approx((0.0, -away, away))
    won = stats.paired_difference(attempts("11"), attempts("00"))
    assert (won.low, won.high) == pytest.approx((1 - 2 * away, 1.0))
    assert not won.clear


def test_a_ratio_of_one_task_has_bounds_only_where_its_span_is_known() -> None:
    tally = {"t": (3.0, 4.0)}
    assert Quantity(tally).measure.interval is None
    found = Quantity(tally, stats.UNIT).measure.interval
    assert (found.low, found.high) == pytest.approx((0.75 * 0.025, 1 - 0.25 * 0.025))
    # tasks without a whole of their own tell nothing: the bound is that of two tasks
    found = Quantity({"t": (1, 1), "u": (2, 2), "v": (0, 0)}, stats.UNIT).measure.interval
    assert (found.low, found.high) == pytest.approx((0.025**0.5, 1.0))


def test_steps_have_an_interval_over_tasks_runs_together() -> None:
    done = [(0, 0, True, 2), (0, 1, True, 4), (1, 0, True, 10)]
    done += [(task, run, False, 15) for task, run in ((1, 1), (2, 0), (2, 1))]
    tried = Tries.of([Attempt(task=task, run=run, success=won, steps=steps) for task, run, won, steps in done])
    steps = stats.steps_for_success(tried)
    assert steps.mean == pytest.approx((6 + 4) / 2)
    interval = stats.steps_interval(tried)
    assert (interval.low, interval.high) == (3.0, 10.0)  # draws of task 0 alone, and of task 1 alone: its one success
    assert stats.steps_interval(attempts("100")) is None


def test_the_interval_is_the_normal_one_for_many_tasks() -> None:
    found = stats.success_interval(attempts("10" * 300))  # 6,000,000 draws: made in parts
    half = 1.96 * 0.5 / sqrt(600)
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.004)


def test_an_interval_is_moved_by_bias_and_by_skew() -> None:
    drawn = np.array([NormalDist().inv_cdf((at + 0.5) / 20_000) for at in range(20_000)])  # standard normal
    level, far = np.zeros(3), NormalDist().inv_cdf(0.975)
    for value in (0.0, 0.3):  # that lies so many deviations above the median: both ends move by twice as many
        found = stats.bca(drawn, value, level)
        assert (found.low, found.high) == pytest.approx((2 * value - far, 2 * value + far), abs=0.01)
    skew = 6 / (6 * 6**1.5)  # of -2, 1 and 1: the sum of cubes by that of squares to the 3/2, by 6
    found = stats.bca(drawn, 0.0, np.array([-2.0, 1.0, 1.0]))
    assert (found.low, found.high) == pytest.approx((-far / (1 + skew * far), far / (1 - skew * far)), abs=0.01)
    assert stats.bca(drawn, 0.3, np.array([np.nan, 1.0])) == stats.percentiles(drawn)


def test_intervals_cover_the_true_difference_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """150 benchmarks of 60 tasks x 3 runs, whose tasks come from one population; its true difference is 0.1."""
    monkeypatch.setattr(stats, "RESAMPLES", 1000)
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(150):
        ease = rng.uniform(0.05, 0.85, 60)
        ours = attempts(*("".join("01"[int(won)] for won in rng.random(60) < ease + 0.1) for _ in range(3)))
        theirs = attempts(*("".join("01"[int(won)] for won in rng.random(60) < ease) for _ in range(3)))
        found = stats.paired_difference(ours, theirs)
        hits += found.low <= 0.1 <= found.high
    assert 0.91 <= hits / 150 <= 0.985


def test_many_rows_of_few_kinds_are_drawn_as_each_by_itself() -> None:
    counts = np.repeat([[3.0, 1.0], [0.0, 0.0], [5.0, 2.0]], [300, 500, 200], axis=0)
    drawn = stats.resample(counts, 20_000, np.random.default_rng(0))
    apart = counts + 1e-9 * np.arange(len(counts))[:, None]  # a kind each
    one_by_one = stats.resample(apart, 20_000, np.random.default_rng(1))
    assert np.allclose(drawn.mean(axis=0), counts.sum(axis=0), rtol=0.005)
    assert np.allclose(drawn.std(axis=0), one_by_one.std(axis=0), rtol=0.03)
    assert np.allclose(drawn.std(axis=0), np.sqrt(len(counts)) * counts.std(axis=0), rtol=0.03)


def attempts_by_task(*tasks: str) -> Tries:
    """One text a task, one letter a run: `1` success, `0` failure."""
    return attempts(*("".join(run) for run in zip_longest(*tasks, fillvalue=".")))


@pytest.mark.parametrize(
    ("tasks", "k", "value"),
    [
        (("1000", "0000", "1111", "1100"), 1, 7 / 16),
        # of 6 pairs of runs, hit: 3, 0, 6, 5 (only the two failures together miss)
        (("1000", "0000", "1111", "1100"), 2, (3 / 6 + 0 + 1 + 5 / 6) / 4),
        (("1000", "0000", "1111", "1100"), 4, 3 / 4),
        (("1000", "0000", "1111", "1100"), 5, None),
        (("10", "1"), 2, 1.0),  # tasks done less than k times are left out
    ],
)
def test_pass_at_k_is_the_mean_over_every_choice_of_k_runs(tasks: tuple[str, ...], k: int, value: float | None) -> None:
    assert pass_at(attempts_by_task(*tasks), k).measure.value == (value and pytest.approx(value))


@pytest.mark.parametrize(
    ("tasks", "k", "value"),
    [
        (("110", "100", "000", "111"), 1, (1 / 3 + 1 / 3) / 4),  # of one try it is the mean of variances
        (("11", "10", "1"), 1, 0.25),  # the third task is done once
        (("1",), 1, None),
        (("1", "0"), 1, None),
        # unbiased, f = 3 of n = 4: C(3,2)/C(4,2) - C(3,4)/C(4,4) = 1/2; f = 4: 1 - 1 = 0
        (("1000", "0000"), 2, 1 / 4),
        # in three runs the plug-in, f = 2 of n = 3: m = C(2,2)/C(3,2) = 1/3, m(1 - m) = 2/9; f = 3: m = 1; f = 1: m = 0
        (("100", "010"), 2, 2 / 9),
        (("100", "000", "110"), 2, 2 / 27),
        (("10", "01"), 2, None),  # m is 0 or 1: it would be 0 always
    ],
)
def test_the_variance_of_k_tries(tasks: tuple[str, ...], k: int, value: float | None) -> None:
    assert pass_variance(attempts_by_task(*tasks), k).measure.value == (value and pytest.approx(value))


def test_intervals_are_those_of_tasks() -> None:
    found = pass_at(attempts_by_task("1", "0"), 1).measure
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


async def test_the_table_holds_each_agent_and_k(store: Store) -> None:
    await store.begin_run("played", {"model": {"path": "pocket"}}, PROVENANCE, agents={"a": {"n": 4}})
    for repeat, outcome in enumerate(("success", "failure", "failure")):
        await record(store, "a", task("t"), repeat, 2, outcome, run="played")  # type: ignore[arg-type]
    (table,) = (one for one in gather(store).tables if one.name == "reliability")
    shown = [(row[0], row[1], row[3].partition(" ")[0]) for row in table.texts()]
    assert shown == [("a", "1", "33.3"), ("a", "2", "66.7"), ("a", "3", "100.0")]
    made = table.rows[0].origin
    assert (made.runs, made.commits, made.models) == (("played",), ("0123456789abcdef",), ("pocket",))
    assert (made.seeds, made.repeats, made.n) == ((3,), 3, 4)
