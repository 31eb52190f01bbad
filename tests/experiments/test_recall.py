from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from bestofq.reports.stats import Interval, PairedDifference, Quantity
from experiments.ranking import OracleStep
from experiments.recall import failure_split_svg, rated_shares, recall_table, subtract

Rated = partial(OracleStep, "item")


def test_recall_and_regret_by_hand() -> None:
    rated = [
        Rated("t", (True, False, False), 0),  # contested: taken; the first too; chance loses 2/3
        Rated("t", (False, True), 0),  # contested: lost, the first too; chance loses 1/2
        Rated("u", (False, True), 1),  # contested: taken where the first is wrong; chance loses 1/2
        Rated("u", (True,), 0),  # nothing to rank
        Rated("u", (False, False), 1),  # not proposed
    ]
    found = rated_shares(rated)
    of_all = {"recall": 4 / 5, "missed": 1 / 5, "chosen": 3 / 5}
    contested = {"right": 2 / 3, "regret": 1 / 3, "first": 2 / 3, "chance": (2 / 3 + 1 / 2 + 1 / 2) / 3, "saved": 1 / 3}
    assert {name: share.value for name, share in found.items()} == pytest.approx(of_all | contested)
    assert found["saved"].measure.interval == Interval(low=0.0, high=1.0)  # t twice, u twice
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
    found = subtract(mine["recall"], other["recall"])
    assert found == PairedDifference(mean=0.5, low=0.0, high=1.0, tasks=2)  # v and w are not both's
    # regret on t and u: 1/2 against 1/1, u holding nothing to rank of theirs
    regret = subtract(mine["regret"], other["regret"])
    assert regret.mean == -0.5


def test_the_split_s_parts_are_as_wide_as_their_shares() -> None:
    rated = [Rated("t", (False, False), 0)] * 2 + [Rated("t", (False, True), chosen) for chosen in (0, 1)]
    drawn = [*ElementTree.fromstring(failure_split_svg(rated)).iter()]
    nodes = {node.get("class"): node for node in reversed(drawn)}  # the first of each: the others are the legend's
    widths = [float(nodes[name].get("width", "")) for name in ("not-proposed", "not-chosen", "good")]
    assert widths == [280.0, 140.0, 140.0]


def test_a_paired_statistic_draws_the_same_tasks_for_both() -> None:
    ours = {task: np.array([value + 1.0, 1.0]) for task, value in enumerate((0.0, 5.0, 9.0))}
    theirs = {task: np.array([value, 1.0]) for task, value in enumerate((0.0, 5.0, 9.0))}
    found = subtract(Quantity(ours), Quantity(theirs))
    assert (found.mean, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))  # whichever tasks are drawn
    assert subtract(Quantity(ours), Quantity({9: np.array([1.0, 1.0])})) is None
