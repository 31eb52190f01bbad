"""Eq. 7 and Eq. 8 by hand arithmetic."""

import math

import pytest
from branch_world import TASK

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate
from bestofq.core.observation import Observation
from bestofq.search.tree import MutableTree

PAGE = Observation(url="u", title="t", text="x", elements=())


def grown(children: int = 3) -> MutableTree:
    tree = MutableTree(TASK, PAGE)
    for mark in range(1, children + 1):
        tree.child(0, Candidate(action=Click(mark=mark), label=f"click {mark}"))
    return tree


def test_an_action_is_one_node_however_often_it_is_proposed() -> None:
    tree = grown(2)
    assert tree.child(0, Candidate(action=Click(mark=1), label="the same", thought="for another reason")) == 1
    assert len(tree.parent) == 3


def test_backup_is_a_running_mean_along_the_path() -> None:
    tree = grown()
    below = tree.child(2, Candidate(action=Click(mark=9), label="click 9"))
    tree.backup([0, 2, below], 1.0)
    tree.backup([0, 2], 0.0)
    tree.backup([0, 1], 0.5)
    assert tree.visits == [3, 1, 2, 0, 1]
    assert tree.value == pytest.approx([0.5, 0.5, 0.5, 0.0, 1.0])


def test_ucb1_by_hand() -> None:
    tree = grown()
    tree.backup([0, 1], 1.0)
    tree.backup([0, 1], 0.0)
    tree.backup([0, 2], 0.0)
    # N(h) = 3: Q = 1/2, 0, 0 and N = 2, 1, 0
    expected = [0.5 + math.sqrt(math.log(3) / 3), math.sqrt(math.log(3) / 2), math.sqrt(math.log(3))]
    assert tree.ucb1(0, 1.0) == pytest.approx(expected)
    assert tree.argmax_ucb1(0, 1.0) == 1  # 1.105 against 0.741 and 1.048
    assert tree.argmax_ucb1(0, 2.0) == 3  # 1.710 against 1.482 and 2.096


def test_before_any_visit_feedback_decides_and_without_it_the_order_of_proposal() -> None:
    tree = grown()
    assert tree.argmax_ucb1(0, 1.0) == 1
    tree.rank(tree.children[0], [0.0, 1.0, 0.5])
    assert tree.argmax_ucb1(0, 1.0) == 2
    tree.ending[2] = "pruned"
    assert tree.argmax_ucb1(0, 1.0) == 3


def test_after_one_visit_that_brought_nothing_an_untried_one_comes_first() -> None:
    tree = grown(2)
    tree.rank(tree.children[0], [1.0, 0.0])
    tree.backup([0, 1], 0.0)  # log N(h) = 0: all UCB1 are 0
    assert tree.argmax_ucb1(0, 1.0) == 2


def test_all_children_pruned_leaves_nothing_to_select() -> None:
    tree = grown(1)
    tree.ending[1] = "pruned"
    assert tree.argmax_ucb1(0, 1.0) is None
    assert tree.find_best_new_child(0) is None


def test_a_tree_is_stored_and_comes_back() -> None:
    tree = grown()
    tree.rank(tree.children[0], [0.0, 1.0, 0.5])
    tree.seen[1] = PAGE.model_copy(update={"url": "elsewhere"})
    tree.backup([0, 1], 1.0)
    stored = tree.to_tree()
    assert stored.page == (0, 1, -1, -1)
    assert stored.path(3) == [0, 3]
    assert stored.children(0) == [1, 2, 3]
    again = MutableTree.from_tree(stored)
    assert again.to_tree() == stored
    assert again.argmax_ucb1(0, 1.0) == tree.argmax_ucb1(0, 1.0)
