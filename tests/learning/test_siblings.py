"""Pairs of actions on one page, and how many of them Q ranks right: by hand."""

import numpy as np

from bestofq.core.transitions import Transitions
from bestofq.learning.siblings import ranked_right, siblings


def transitions(*rows: tuple[int, int, int, float, bool]) -> Transitions:
    """(task, state, action, reward, terminal) each."""
    task, state, action, reward, terminal = zip(*rows, strict=True)
    return Transitions(
        vectors=np.arange(20, dtype=np.float32)[:, None],
        state=np.array(state),
        action=np.array(action),
        task=np.array(task),
        next_state=np.array(state),
        reward=np.array(reward, np.float32),
        terminal=np.array(terminal),
    )


LOGGED = transitions(
    *[(0, 2, 10, 0.0, False), (0, 3, 11, 1.0, True)],  # won
    *[(0, 2, 12, 0.0, False), (0, 3, 11, 0.0, True)],  # lost by its first action, or after it
    *[(0, 2, 13, 0.0, True)],  # lost
    *[(1, 2, 13, 1.0, True)],  # won, on the same page, but another task's
    *[(1, 2, 10, 0.0, True)],
)


def test_pairs_share_page_and_task_and_differ_in_action_and_outcome() -> None:
    pairs = siblings(LOGGED)
    assert list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [(0, 2), (0, 4), (5, 6)]


def test_pairs_ranked_right_by_task() -> None:
    level = transitions((0, 2, 10, 1.0, True), (0, 2, 11, 0.0, True))
    assert ranked_right(level, siblings(level), np.zeros(2, np.float32)) == [(0, 0.5, 1.0)]  # equal values count half
    assert ranked_right(LOGGED, siblings(LOGGED), LOGGED.vectors[LOGGED.action, 0]) == [(0, 0.0, 2.0), (1, 1.0, 1.0)]
