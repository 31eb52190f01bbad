"""Which of two actions on one page of one task ended better, by logged episodes alone: no oracle, no replay."""

from collections import defaultdict
from itertools import product
from typing import NamedTuple

import numpy as np

from bestofq.core.transitions import Floats, Ints, Transitions


def ends_of(data: Transitions) -> Ints:
    """[T], the last row of each row's episode; episodes lie one after the other."""
    last = np.flatnonzero(data.terminal)
    return last[np.searchsorted(last, np.arange(len(data)))]


class Siblings(NamedTuple):
    """P pairs of rows of the transitions: one state and task, two actions."""

    better: Ints  # [P], of episodes that succeeded
    worse: Ints  # [P], of episodes that did not


def siblings(data: Transitions) -> Siblings:
    """All such pairs, of episodes that lie one after the other and end at a terminal row."""
    won = data.reward[ends_of(data)] > 0
    pages: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row, page in enumerate(zip(data.task.tolist(), data.state.tolist(), strict=True)):
        pages[page][0 if won[row] else 1].append(row)
    pairs = [pair for page in pages.values() for pair in product(*page) if data.action[pair[0]] != data.action[pair[1]]]
    better, worse = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Siblings(better, worse)


def ranked_right(data: Transitions, pairs: Siblings, worth: Floats) -> list[tuple[int, float, float]]:
    """By task: pairs whose better action is worth more, ties by half, and all pairs. `worth` [T], such as Q."""
    better, worse = (worth[rows] for rows in pairs)
    right = (better > worse) + 0.5 * (better == worse)
    tasks = np.unique(data.task, return_inverse=True)[1][pairs.better]
    return [
        (task, float(right[tasks == task].sum()), float((tasks == task).sum())) for task in np.unique(tasks).tolist()
    ]
