import numpy as np
import pytest
from report_nouns import PROVENANCE, record, task

from bestofq.core.decision import Outcome, Verdict
from bestofq.core.errors import DataError
from bestofq.reports.agreement import Agreement, agreement, agreement_tables, cohens_kappa
from bestofq.store.store import Store

JUDGE = "gpt [8 screenshots]"
# (task, truth, what the judge said): 3 true and 1 false positive, 2 false and 4 true negatives, 1 apart
EPISODES: tuple[tuple[str, Outcome, Outcome], ...] = (
    ("a", "success", "success"),
    ("a", "success", "success"),
    ("a", "success", "blocked"),
    ("b", "success", "success"),
    ("b", "success", "failure"),
    ("b", "failure", "success"),
    ("c", "failure", "failure"),
    ("c", "failure", "impossible"),
    ("c", "failure", "failure"),
    ("d", "failure", "failure"),
    ("d", "failure", "unparseable"),
)


async def fill(store: Store, episodes: tuple[tuple[str, Outcome, Outcome], ...] = EPISODES) -> None:
    await store.begin_run("eval", {}, PROVENANCE)
    for repeat, (name, truth, said) in enumerate(episodes):
        episode = await record(store, "walker", task(name), repeat, 1, truth)
        verdict = Verdict(reward=float(said == "success"), outcome=said, judge=JUDGE)
        await store.add_verdict(episode, verdict, adopt=False)


async def test_measures_by_hand(store: Store) -> None:
    await fill(store)
    found = agreement(store, "eval", judge=JUDGE)
    assert all(not summary.judge for summary in store.summaries())  # the environment's verdicts stay in force
    assert (found.compared, found.tasks) == (10, 4)
    assert found.accuracy.value == pytest.approx(7 / 10)
    assert found.precision.value == pytest.approx(3 / 4)
    assert found.recall.value == pytest.approx(3 / 5)
    # by chance: 0.4 · 0.5 + 0.6 · 0.5 = 0.5; κ = (0.7 − 0.5) / (1 − 0.5)
    assert found.kappa.value == pytest.approx(0.4)
    for measure in (found.accuracy, found.precision, found.recall, found.kappa):
        assert measure.value is not None
        assert measure.interval.low < measure.value < measure.interval.high
    others = {"blocked": (1, 0), "impossible": (0, 1), "unparseable": (0, 1)}
    assert found.classes == {"success": (3, 1), "failure": (1, 3), **others}
    assert Agreement.model_validate_json(found.model_dump_json()) == found
    said = "".join(table.to_markdown() + table.to_json() for table in agreement_tables(found))
    assert JUDGE in said
    assert "Over 10 episodes of 4 tasks; 1 more got no verdict" in said
    assert "0.400" in said


async def test_episodes_of_one_task_are_no_news_to_each_other(store: Store) -> None:
    """Ten episodes of each of two tasks, judged right on one task and wrong on the other: all or nothing."""
    episodes: tuple[tuple[str, Outcome, Outcome], ...] = (("a", "success", "success"), ("b", "success", "failure"))
    await fill(store, episodes * 10)
    found = agreement(store, "eval", judge=JUDGE)
    assert (found.accuracy.interval.low, found.accuracy.interval.high) == (0.0, 1.0)


async def test_what_is_undefined_is_no_number(store: Store) -> None:
    await fill(store, (("a", "failure", "failure"),))
    found = agreement(store, "eval", judge=JUDGE)
    assert (found.accuracy.value, found.precision.value, found.recall.value) == (1.0, None, None)
    assert (found.kappa.value, found.kappa.interval) == (None, None)
    with pytest.raises(DataError, match=r"judge 'another' has given no second verdict .* there are those of gpt"):
        agreement(store, "eval", judge="another")


def test_kappa_of_published_tables() -> None:
    """Full agreement, none at all, and Wikipedia's example of two readers of 50 proposals (20, 5, 10, 15)."""
    counts = np.array([[5.0, 0, 0, 5], [0, 5, 5, 0], [20, 5, 10, 15]])
    assert cohens_kappa(counts) == pytest.approx([1.0, -1.0, 0.4])
