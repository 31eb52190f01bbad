import pytest
from report_nouns import PROVENANCE, record, task

from bestofq.reports.figures import reliability_svg
from bestofq.reports.reliability import pass_at, pass_table, pass_variance
from bestofq.reports.report import gather
from bestofq.reports.stats import Attempt
from bestofq.store.store import Store


def attempts(*tasks: str) -> list[Attempt]:
    """One text a task, one letter a run: `1` success, `0` failure."""
    return [
        Attempt(task=task, run=run, success=letter == "1", steps=3)
        for task, letters in enumerate(tasks)
        for run, letter in enumerate(letters)
    ]


def test_pass_at_k_is_the_mean_over_every_choice_of_k_runs() -> None:
    tried = attempts("1000", "0000", "1111", "1100")
    # of 6 pairs of runs, hit: 3, 0, 6, 5 (only the two failures together miss)
    assert pass_at(tried, 2).measure.value == pytest.approx((3 / 6 + 0 + 1 + 5 / 6) / 4)
    assert pass_at(tried, 1).measure.value == pytest.approx(7 / 16)
    assert pass_at(tried, 4).measure.value == pytest.approx(3 / 4)
    assert pass_at(tried, 5).measure.value is None


def test_tasks_done_less_than_k_times_are_left_out() -> None:
    assert pass_at(attempts("10", "1"), 2).measure.value == 1.0


def test_the_variance_of_one_try_is_the_mean_of_variances() -> None:
    tried = attempts("110", "100", "000", "111")
    assert pass_variance(tried, 1).measure.value == pytest.approx((1 / 3 + 1 / 3) / 4)
    assert pass_variance(attempts("11", "10", "1"), 1).measure.value == 0.25  # the third task is done once
    assert pass_variance(attempts("1"), 1).measure.value is None


def test_the_variance_of_two_tries_is_unbiased() -> None:
    # f = 3 of n = 4: C(3,2)/C(4,2) - C(3,4)/C(4,4) = 1/2; f = 4: 1 - 1 = 0
    assert pass_variance(attempts("1000", "0000"), 2).measure.value == pytest.approx(1 / 4)


def test_the_variance_of_two_tries_in_three_runs_is_the_plug_in() -> None:
    # f = 2 of n = 3: m = C(2,2)/C(3,2) = 1/3, m(1 - m) = 2/9; f = 3: m = 1; f = 1: m = 0
    assert pass_variance(attempts("100", "010"), 2).measure.value == pytest.approx(2 / 9)
    assert pass_variance(attempts("100", "000", "110"), 2).measure.value == pytest.approx(2 / 27)
    assert pass_variance(attempts("10", "01"), 2).measure.value is None  # m is 0 or 1: it would be 0 always
    assert pass_variance(attempts("1", "0"), 1).measure.value is None
    for runs, biased in (("110", 2), ("1100", 3)):
        *_, note = notes = pass_table({"a": attempts(runs)}, {}).notes
        assert note.startswith(f"a, k = {biased}: a task has fewer than 2k runs")
        assert len(notes) == 3


def test_intervals_are_those_of_tasks() -> None:
    found = pass_at(attempts("1", "0"), 1).measure
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


async def test_the_table_and_the_picture_hold_each_agent_and_k(store: Store) -> None:
    await store.begin_run("played", {"model": {"path": "pocket"}}, PROVENANCE)
    for repeat, outcome in enumerate(("success", "failure", "failure")):
        await record(store, "a", task("t"), repeat, 2, outcome, run="played")  # type: ignore[arg-type]
    (table,) = (one for one in gather(store).tables if one.name == "reliability")
    shown = [texts[:4] for texts in table.texts()]
    assert [(row[0], row[1], row[3].partition(" ")[0]) for row in shown] == [
        ("a", "1", "33.3"),
        ("a", "2", "66.7"),
        ("a", "3", "100.0"),
    ]
    made = table.rows[0].origin
    assert (made.runs, made.commits, made.models, made.seeds, made.repeats, made.n) == (
        ("played",),
        ("0123456789abcdef",),
        ("pocket",),
        (3,),
        3,
        3,
    )
    svg = reliability_svg(pass_table({"a": attempts("110")}, {}))
    assert "a @1, σ² 0.333" in svg
    assert "a @2, σ² 0.000" in svg  # m = 0: any two of the three solve it
    assert "a @3<" in svg
