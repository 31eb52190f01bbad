from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions
from bestofq.learning.batches import Batches
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import IQL, expectile_loss, td_loss, train_iql
from bestofq.learning.value import ValueModel

ROWS = ("state", "action", "task", "next_state", "reward", "terminal")


def test_expectile_loss_by_hand() -> None:
    # u = Q - V = 2, -1, 0: (0.7 · 4 + 0.3 · 1 + 0) / 3
    assert expectile_loss(torch.tensor([2.0, -1.0, 0.0]), 0.7).item() == pytest.approx(3.1 / 3)
    # At 0.5 it is half the squared error.
    assert expectile_loss(torch.tensor([2.0, -1.0]), 0.5).item() == pytest.approx(0.5 * 2.5)


def test_expectile_of_two_values() -> None:
    # The expectile of {0, 1} solves 0.7 (1 - v) = 0.3 v: v = 0.7.
    v = torch.tensor(0.2, requires_grad=True)
    for _ in range(300):
        (slope,) = torch.autograd.grad(expectile_loss(torch.tensor([0.0, 1.0]) - v, 0.7), v)
        v = (v - 0.2 * slope).detach().requires_grad_()
    assert v.item() == pytest.approx(0.7, abs=1e-4)


def test_td_loss_by_hand() -> None:
    # Targets 0 + 0.9 · 0.5 = 0.45 and, terminal, 1 + 0; errors 0.45 - 0.25 = 0.2 and 1 - 0.5 = 0.5.
    loss = td_loss(
        q=torch.tensor([0.25, 0.5]),
        next_v=torch.tensor([0.5, 100.0]),
        reward=torch.tensor([0.0, 1.0]),
        continues=torch.tensor([1.0, 0.0]),
        discount=0.9,
    )
    assert loss.item() == pytest.approx((0.04 + 0.25) / 2)


def test_first_update_by_hand(data: Transitions, config: IQLConfig) -> None:
    """Adam's first step moves each parameter by lr · g / (|g| + eps) = lr · sign(g), V before Q."""
    config = config.model_copy(
        update={"weight_decay": 0.0, "network": NetworkConfig(project=4, hidden=(4,), dropout=0)}
    )
    iql = IQL(8, config)
    batch = Batches(data, batch_size=32, seed=0, device=torch.device("cpu"))[0]
    v_loss = expectile_loss(iql.q(batch.state, batch.action, batch.task) - iql.v(batch.state, batch.task), 0.7)
    (slope,) = torch.autograd.grad(v_loss, iql.v.out.weight)
    before = iql.v.out.weight.detach().clone()
    losses = iql.update(batch)
    assert losses[0].item() == pytest.approx(v_loss.item())
    torch.testing.assert_close(iql.v.out.weight, before - config.lr_v * slope.sign(), atol=1e-6, rtol=1e-4)


def test_target_is_a_hard_copy_every_so_many_steps(data: Transitions, config: IQLConfig) -> None:
    iql = IQL(8, config)
    batches = Batches(data, batch_size=32, seed=0, device=iql.device)
    for _ in range(30):
        iql.update(batches[iql.step])
    after_30 = iql.q.out.weight.detach().clone()
    assert not torch.equal(iql.q_target.out.weight, after_30)
    iql.update(batches[30])
    assert torch.equal(iql.q_target.out.weight, after_30)
    iql.update(batches[31])
    assert torch.equal(iql.q_target.out.weight, after_30)


def test_the_target_values_each_transition_once_and_the_losses_are_the_same(
    data: Transitions, config: IQLConfig
) -> None:
    often, once = IQL(8, config), IQL(8, config)
    batches = Batches(data, batch_size=32, seed=0, device=often.device)
    once.value_once(batches)
    asked: list[int] = []
    once.q_target.register_forward_hook(lambda _, inputs, __: asked.append(len(inputs[0])))
    for _ in range(70):
        expected, found = (iql.update(batches[iql.step]) for iql in (often, once))
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert sum(asked) == 3 * len(data)  # at steps 0, 30 and 60


def test_rows_are_means_since_the_row_before_and_rates_fall_as_a_cosine(data: Transitions, config: IQLConfig) -> None:
    rows: dict[int, Mapping[str, float]] = {}
    train_iql(data, config, log=rows.__setitem__)
    assert [*rows] == [50, 100, 150, 200]
    assert rows[100]["lr_q"] == pytest.approx(3e-4 * 0.5 * (1 + np.cos(np.pi * 99 / 200)))
    assert rows[200]["q_loss"] < rows[50]["q_loss"]


def test_training_leaves_the_users_random_numbers_alone(data: Transitions, config: IQLConfig) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train_iql(data, config.model_copy(update={"steps": 5}))
    assert torch.equal(torch.rand(4), expected)


def test_bfloat16_learns_what_float32_learns(data: Transitions, config: IQLConfig) -> None:
    def last_loss(precision: str) -> float:
        rows: list[Mapping[str, float]] = []
        train_iql(
            data, config.model_copy(update={"precision": precision, "steps": 100}), log=lambda _, row: rows.append(row)
        )
        return rows[-1]["q_loss"]

    assert last_loss("bf16") == pytest.approx(last_loss("fp32"), rel=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({name: np.zeros(0, np.int64) for name in ROWS}, "0 transitions"),
        ({"vectors": np.full((40, 8), np.nan, np.float32)}, "40 of 40 embedding vectors"),
    ],
)
def test_refuses_data_that_cannot_be_learned_from(
    data: Transitions, config: IQLConfig, change: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        train_iql(replace(data, **change), config)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_captured_step_learns_what_an_eager_step_learns(data: Transitions, config: IQLConfig, precision: str) -> None:
    config = config.model_copy(update={"device": "cuda", "precision": precision})
    captured = train_iql(data, config)
    eager = IQL(data.dim, config)
    batches = Batches(data, batch_size=config.batch_size, seed=config.seed, device=eager.device, dtype=eager.dtype)
    eager.value_once(batches)
    while eager.step < config.steps:
        eager.update(batches[eager.step])
    for ours, theirs in ((captured.q, eager.q), (captured.v, eager.v), (captured.q_target, eager.q_target)):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


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


def test_q_ranks_as_the_optimum_and_stitches_a_path_no_episode_took() -> None:
    data, best = transitions(), value_iteration()
    rates = {"expectile": 0.98, "discount": DISCOUNT, "lr_q": 3e-3, "lr_v": 3e-3, "weight_decay": 0.0}
    training = {"batch_size": 64, "target_update_every": 20, "steps": 1000, "device": "cpu", "precision": "fp32"}
    config = IQLConfig(**rates, **training, network=NetworkConfig(project=16, hidden=(64, 32), dropout=0.0))
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
