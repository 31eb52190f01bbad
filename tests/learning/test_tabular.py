"""A maze of six rooms in which no episode goes the whole way, against value iteration."""

import numpy as np
import pytest

from bestofq.core.embedding import EmbedSpec
from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import train_iql
from bestofq.learning.value import ValueModel

ROOMS, ACTIONS, DISCOUNT = 6, 3, 0.9
GOAL, PIT = 6, 7
# NEXT[room][action]. One way out: 0 -1-> 2 -0-> 3 -2-> 4 -1-> GOAL. Rooms 1 and 5 lead on, but by detours.
NEXT = np.array([[1, 2, 0], [0, 5, PIT], [3, 0, PIT], [0, 2, 4], [3, GOAL, PIT], [PIT, 5, 4]])
# Two good halves and much wandering. From room 0 every episode fails; the one success begins in room 3.
EPISODES = [
    [(0, 1), (2, 0), (3, 0), (0, 0), (1, 2)],
    [(3, 2), (4, 1)],
    [(0, 0), (1, 0), (0, 2), (0, 0), (1, 2)],
    [(0, 1), (2, 1), (0, 1), (2, 2)],
    [(3, 1), (2, 0), (3, 1), (2, 2)],
    [(4, 0), (3, 2), (4, 2)],
    [(1, 1), (5, 1), (5, 0)],
]


def value_iteration() -> np.ndarray:
    """Q* [room, action] over the actions that the data holds, others -inf: what in-sample learning can know."""
    seen = {step for episode in EPISODES for step in episode}
    q = np.full((ROOMS, ACTIONS), -np.inf)
    for _ in range(100):
        value = np.append(q.max(axis=1), [0.0, 0.0])
        for room, action in seen:
            reached = NEXT[room, action]
            q[room, action] = 1.0 if reached == GOAL else 0.0 if reached == PIT else DISCOUNT * max(value[reached], 0)
    return q


def transitions() -> Transitions:
    """Rooms, actions and the one task as one-hot vectors."""
    steps = np.array([step for episode in EPISODES for step in episode])
    reached = NEXT[steps[:, 0], steps[:, 1]]
    return Transitions(
        vectors=np.eye(ROOMS + ACTIONS + 1, dtype=np.float32),
        state=steps[:, 0],
        action=ROOMS + steps[:, 1],
        task=np.full(len(steps), ROOMS + ACTIONS),
        next_state=np.where(reached < ROOMS, reached, 0),
        reward=(reached == GOAL).astype(np.float32),
        terminal=reached >= ROOMS,
    )


@pytest.mark.slow
def test_q_ranks_as_the_optimum_and_stitches_a_path_no_episode_took() -> None:
    data, best = transitions(), value_iteration()
    config = IQLConfig(
        expectile=0.98,
        discount=DISCOUNT,
        lr_q=3e-3,
        lr_v=3e-3,
        weight_decay=0.0,
        batch_size=64,
        target_update_every=20,
        steps=1000,
        network=NetworkConfig(project=16, hidden=(64, 32), dropout=0.0),
        device="cpu",
        precision="fp32",
    )
    iql = train_iql(data, config)
    model = ValueModel(iql.q, iql.v, embed=EmbedSpec(model="rooms", revision="1", dim=data.dim), train_n=ACTIONS)

    rooms = data.vectors[:ROOMS]  # [6, D]
    tasks = np.repeat(data.vectors[-1:], ROOMS, axis=0)
    actions = np.repeat(data.vectors[None, ROOMS : ROOMS + ACTIONS], ROOMS, axis=0)  # [6, 3, D]
    learned = model.q(rooms, actions, tasks)
    seen = np.isfinite(best)
    assert np.abs(learned[seen] - best[seen]).max() < 0.15  # an expectile below 1 stays below the maximum
    better = seen[:, :, None] & seen[:, None] & (best[:, :, None] > best[:, None])  # [6, 3, 3] action i over j
    assert better.sum() == 14
    assert (learned[:, :, None] > learned[:, None])[better].all()

    path, room = [0], 0
    while room < ROOMS and len(path) < 10:
        room = int(NEXT[room, np.where(seen[room], learned[room], -np.inf).argmax()])
        path.append(room)
    assert path == [0, 2, 3, 4, GOAL]
    assert not any(episode[0][0] == 0 and NEXT[episode[-1]] == GOAL for episode in EPISODES)
