import io
from typing import NamedTuple

import numpy as np
import pytest
from report_nouns import PROVENANCE, decision, page, record, task
from rich.console import Console

from bestofq.core.actions import Action, Click
from bestofq.core.decision import Candidate, Decision, Outcome, Step, Verdict
from bestofq.core.errors import DataError
from bestofq.core.observation import Point
from bestofq.reports.agreement import Agreement, agreement, agreement_tables, cohens_kappa
from bestofq.reports.recall import rated_shares, recall_table, sibling_steps, split_failures
from bestofq.reports.stats import Interval, PairedDifference
from bestofq.store.store import Store


class Rated(NamedTuple):
    task: str
    good: tuple[bool, ...]
    chosen: int


def test_recall_and_regret_by_hand() -> None:
    rated = [
        Rated("t", (True, False, False), 0),  # contested: taken; the first too; chance loses 2/3
        Rated("t", (False, True), 0),  # contested: lost, the first too; chance loses 1/2
        Rated("u", (False, True), 1),  # contested: taken where the first is wrong; chance loses 1/2
        Rated("u", (True,), 0),  # nothing to rank
        Rated("u", (False, False), 1),  # not proposed
    ]
    found = rated_shares(rated)
    assert {name: share.value for name, share in found.items()} == pytest.approx(
        {
            "recall": 4 / 5,
            "missed": 1 / 5,
            "chosen": 3 / 5,
            "right": 2 / 3,
            "regret": 1 / 3,
            "first": 2 / 3,
            "chance": (2 / 3 + 1 / 2 + 1 / 2) / 3,
            "saved": 1 / 3,
        }
    )
    assert found["saved"].measure.interval == Interval(low=0.0, high=1.0)  # t twice, u twice
    assert split_failures(rated)[0] == (1, 1, 3)
    (texts,) = recall_table({"a": rated, "b": []}, rater="hand", of={"a": 9}).texts()
    assert (*texts[:3], texts[6]) == ("a", "9", "5", "3")
    assert [text.partition(" ")[0] for text in texts[7:]] == ["33.3", "66.7", "55.6", "+33.3"]


def test_a_recall_of_all_tasks_is_not_certain() -> None:
    found = rated_shares([Rated(task, (True, True), 0) for task in "tuv"])
    interval = found["recall"].measure.interval
    assert interval.low == pytest.approx(0.025 ** (1 / 3))
    assert found["regret"].value is None  # nothing contested


def test_recall_and_regret_of_two_agents_are_paired_by_task() -> None:
    ours = [Rated("t", (True, False), 0), Rated("u", (True, False), 1), Rated("v", (True, False), 0)]
    theirs = [Rated("t", (True, False), 1), Rated("u", (False, False), 0), Rated("w", (True, False), 0)]
    mine, other = rated_shares(ours), rated_shares(theirs)
    found = mine["recall"].minus(other["recall"])
    assert found == PairedDifference(mean=0.5, low=0.0, high=1.0, tasks=2)  # v and w are not both's
    # regret on t and u: 1/2 against 1/1, u holding nothing to rank of theirs
    regret = mine["regret"].minus(other["regret"])
    assert regret.mean == -0.5


async def test_siblings_rate_steps_on_their_own_pages(store: Store) -> None:
    def step(index: int, place: int, chosen: int) -> Step:
        return Step(index=index, observation=page(place), decision=decision(chosen=chosen))

    await record(store, "strong", task("t"), 0, [step(0, 0, 1), step(1, 1, 2)], "success")
    await record(store, "strong", task("t"), 1, [step(0, 0, 0)], "failure")
    await record(store, "strong", task("u"), 0, [step(0, 0, 0)], "success")
    await record(store, "weak", task("t"), 0, [step(0, 0, 0), step(1, 5, 0), step(2, 1, 2)], "failure")
    await record(store, "weak", task("t"), 1, [step(0, 0, 2)], "success")
    rated = sibling_steps(store.episodes())["weak"]
    assert [(r.task, r.good, r.chosen) for r in rated] == [
        (("shop", "t"), (False, True, False), 0),
        (("shop", "t"), (False, False, True), 2),
        (("shop", "t"), (False, True, False), 2),
    ]
    (rated,) = sibling_steps(store.episodes(agent="strong")).values()
    assert [r.good for r in rated] == [(False, True, False)]  # of its own other try, which alone succeeded


async def test_siblings_did_the_same_action_not_one_with_the_same_words(store: Store) -> None:
    words = "click link the mug"
    actions = (Click(mark=1), Click(mark=2), Click(target="the mug"))
    weighed = tuple(Candidate(action=action, label=words) for action in actions)

    def step(chosen: int, action: Action | None = None) -> Step:
        candidates = list(weighed)
        if action is not None:
            candidates[chosen] = weighed[chosen].model_copy(update={"action": action})
        taken = Decision(candidates=tuple(candidates), scores=(0.0,) * 3, chosen=chosen)
        return Step(index=0, observation=page(0), decision=taken)

    await record(store, "strong", task("t"), 0, [step(1)], "success")
    found = Click(target="the mug", point=Point(4, 5))  # as a localizer leaves it
    await record(store, "strong", task("u"), 0, [step(2, found)], "success")
    await record(store, "weak", task("t"), 0, [step(0)], "failure")
    await record(store, "weak", task("u"), 0, [step(0)], "failure")
    rated = sibling_steps(store.episodes())["weak"]
    assert [r.good for r in rated] == [(False, True, False), (False, False, True)]


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
    assert found.classes == {
        "success": (3, 1),
        "failure": (1, 3),
        "blocked": (1, 0),
        "impossible": (0, 1),
        "unparseable": (0, 1),
    }
    assert Agreement.model_validate_json(found.model_dump_json()) == found
    console = Console(file=io.StringIO(), width=120)
    console.print(*agreement_tables(found))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
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
