from pathlib import Path

import numpy as np
import pytest
from report_nouns import PROVENANCE, page, task

from bestofq.core.decision import Verdict
from bestofq.core.errors import InputError
from bestofq.reports import stats
from bestofq.reports.diagnosis import Options
from bestofq.reports.judged import JudgeError, correct_success, corrected_table
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.stats import Attempt
from bestofq.store.store import Store


def attempts(won: int, of: int) -> list[Attempt]:
    return [Attempt(task=n, run=0, success=n < won, steps=1) for n in range(of)]


def out_of_steps(*tasks: int) -> list[Attempt]:
    return [Attempt(task=n, run=0, success=False, steps=1, judged=False) for n in tasks]


def error(yes: int, false_yes: int, false_no: int, no: int) -> JudgeError:
    """So many true and false positives, false and true negatives, an episode a task."""
    cells = [(1.0, 0.0, 0.0, 0.0)] * yes + [(0.0, 1.0, 0.0, 0.0)] * false_yes
    cells += [(0.0, 0.0, 1.0, 0.0)] * false_no + [(0.0, 0.0, 0.0, 1.0)] * no
    return JudgeError(judge="j", counts=np.array(cells))


def test_success_is_corrected_by_hand() -> None:
    # sensitivity 0.9, specificity 0.8: (0.55 + 0.8 - 1) / 0.7 = 0.5
    found = correct_success("a", attempts(55, 100), error(90, 20, 10, 80))
    assert found.said.value == pytest.approx(0.55)
    assert found.true.value == pytest.approx(0.5)
    assert found.defined == 1.0
    assert found.said.interval is not None
    assert found.true.interval is not None
    said, true = found.said.interval, found.true.interval
    assert true.high - true.low > (said.high - said.low) / 0.7  # the judge's own error on top
    assert found.difference is None


def test_only_what_was_judged_is_corrected_by_hand() -> None:
    # 20 of 100 judged a success, 50 judged: (0.2 + 0.5 (0.8 - 1)) / 0.7 = 1/7; the baseline: (0.55 + 0.8 - 1) / 0.7
    slow, judge = [*attempts(20, 50), *out_of_steps(*range(50, 100))], error(90, 20, 10, 80)
    found = correct_success("a", slow, judge, baseline=attempts(55, 100))
    assert found.said.value == pytest.approx(0.2)
    assert found.true.value == pytest.approx(1 / 7)
    assert found.difference is not None
    assert found.difference.mean == pytest.approx(1 / 7 - 0.5)
    assert found.difference.low < 1 / 7 - 0.5 < found.difference.high
    assert any("about 50.0 % of its tries" in note for note in corrected_table([found], judge, {}).notes)
    # a success that is known, as by the user, is one: 0.1 + (0.2 + 0.4 (0.8 - 1)) / 0.7
    known = [one._replace(success=one.task >= 90) for one in out_of_steps(*range(40, 100))]
    mixed = correct_success("a", [*attempts(20, 40), *known], judge)
    assert mixed.said.value == pytest.approx(0.3)
    assert mixed.true.value == pytest.approx(0.1 + 0.12 / 0.7)


def test_tries_of_one_task_are_averaged_judged_or_not() -> None:
    # each task once judged a success and once out of steps: (0.5 + 0.5 (0.8 - 1)) / 0.7
    found = correct_success(
        "a", [*attempts(40, 40), *out_of_steps(*range(40))], error(90, 20, 10, 80), attempts(40, 40)
    )
    assert found.true.value == pytest.approx(0.4 / 0.7)
    assert found.difference is not None  # alike in all tasks: -0.5 said, and 0.1 more of each task's unjudged half
    assert found.difference.mean == pytest.approx((-0.5 + 0.5 * 0.2) / 0.7)
    assert -1 < found.difference.low < found.difference.mean < found.difference.high < 0


async def test_running_out_of_steps_counts_as_a_failure_though_no_judge_was_asked(tmp_path: Path) -> None:
    slow = Verdict(reward=0.0, outcome="failure", reason="ran out of its 30 steps")
    with Store.open(tmp_path) as store:
        for run, agent, judge, of in (
            ("eval", "prompting", "j", 40),
            ("eval", "best-of-q", "j", 10),  # the other 30 ran out of steps
            ("shop", "random", "", 10),  # its environment knows the truth
        ):
            await store.begin_run(run, {"suite": {"name": run}}, PROVENANCE)
            for n in range(40):
                episode = await store.begin_episode(run, agent, task(f"t{n}"), 0, PROVENANCE)
                won = n % 10 < 8
                told = Verdict(reward=float(won), outcome="success" if won else "failure", judge=judge)
                await store.finish_episode(episode, told if n < of else slow, page(99))
        found = gather(store, Selection(baseline="prompting"), Options(error=error(90, 10, 10, 90)))
    (table,) = (one for one in found.tables if one.name == "judged")
    said = {row[0].split()[0]: row[1:4] for row in table.texts()}
    assert {agent: [cell.split()[0] for cell in cells] for agent, cells in said.items()} == {
        "prompting": ["80.0", "87.5", "–"],  # (0.8 - 0.1) / 0.8
        "best-of-q": ["20.0", "21.9", "-65.6"],  # (0.2 - 0.25 · 0.1) / 0.8
    }


def test_a_judge_that_was_not_seen_to_err_may_err_all_the_same() -> None:
    few, many = (correct_success("a", attempts(30, 100), error(n, 0, 0, n)) for n in (5, 5000))
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
    found = correct_success("a", attempts(60, 100), error(90, 20, 10, 80), baseline=attempts(39, 100))
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
    found = correct_success("a", attempts(won, of), judge, baseline=attempts(lost, of)).difference
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((mean, low, high), abs=0.005)
    assert found.clear is (low > 0)
    doubtful = correct_success("a", attempts(won, of), error(90, 10, 10, 90), baseline=attempts(lost, of)).difference
    assert doubtful is not None
    assert doubtful.low < found.low or found.low == -1
    assert doubtful.high > found.high or found.high == 1


def test_what_cannot_be_corrected_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"no better than chance \(sensitivity 0.50, specificity 0.50\)"):
        correct_success("a", attempts(5, 10), error(5, 5, 5, 5))
    with pytest.raises(InputError, match=r"the sensitivity of judge j was not measured: no .* really succeeded"):
        correct_success("a", attempts(5, 10), error(0, 0, 0, 9))
    with pytest.raises(InputError, match=r"the specificity of judge j was not measured: no .* really failed"):
        correct_success("a", attempts(5, 10), error(9, 0, 0, 0))
    with pytest.raises(InputError, match="no judged episode of a"):
        correct_success("a", [], error(9, 1, 1, 9))


def test_a_doubtful_judge_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 500)
    doubtful = error(3, 2, 2, 3)
    found = correct_success("a", attempts(5, 10), doubtful)
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
        interval = correct_success("a", tried, judge).true.interval
        assert interval is not None
        hits += interval.low <= 0.4 <= interval.high
    assert 0.90 <= hits / 120 <= 0.99
