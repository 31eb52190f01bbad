from typing import NamedTuple

import pytest
from report_nouns import decision, page, record, task

from bestofq.core.actions import Action, Click
from bestofq.core.decision import Candidate, Decision, Step
from bestofq.core.observation import Point
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
    (texts,) = recall_table({"a": rated, "b": []}, {}, rater="hand", of={"a": 9}).texts()
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
    read = list(store.episodes())
    rated = sibling_steps(read, "weak", read)
    assert [(r.task, r.good, r.chosen) for r in rated] == [
        (("shop", "t"), (False, True, False), 0),
        (("shop", "t"), (False, False, True), 2),
        (("shop", "t"), (False, True, False), 2),
    ]
    rated = sibling_steps(read, "weak", read, own=True)
    assert [r.good for r in rated] == [
        (False, True, True),  # its own other try succeeded too
        (False, False, True),
        (False, True, False),  # but an episode is no sibling of itself
    ]


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
    read = list(store.episodes())
    rated = sibling_steps(read, "weak", read)
    assert [r.good for r in rated] == [(False, True, False), (False, False, True)]
