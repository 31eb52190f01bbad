"""Each other learner prefers what led to success, on a page with three buttons; returns and steps ahead by hand."""

import numpy as np
import pytest

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import IQL
from bestofq.learning.value import ValueModel
from experiments import learners

STATE, WON, LOST, TASK, GOOD, BAD, DEAD, ON = range(8)
CONFIG = IQLConfig(steps=300, batch_size=16, lr_q=3e-3, lr_v=3e-3, discount=0.9, network=NetworkConfig(hidden=(32,)))


@pytest.fixture
def data() -> Transitions:
    """Eight episodes of two steps: the good first action leads to success, the bad one does not."""
    first = [GOOD, BAD] * 4
    later = [WON, LOST] * 4
    return Transitions(
        vectors=np.eye(8, dtype=np.float32),
        state=np.array([one for page in later for one in (STATE, page)]),
        action=np.array([one for action in first for one in (action, ON)]),
        task=np.full(16, TASK),
        next_state=np.array([one for page in later for one in (page, page)]),
        reward=np.array([one for action in first for one in (0, action == GOOD)], np.float32),
        terminal=np.array([False, True] * 8),
        others=np.array([one for action in first for one in ((GOOD + BAD - action, DEAD), (-1, -1))]),
    )


def test_returns_by_hand(data: Transitions) -> None:
    np.testing.assert_allclose(learners.returns(data, 0.9)[:4], [0.9, 1.0, 0.0, 0.0], rtol=1e-6)
    assert data.ends[:4].tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("name", ["monte_carlo", "n_step", "cloning", "weighted", "conservative", "ranking"])
def test_what_led_to_success_is_worth_more(name: str, data: Transitions) -> None:
    learned = getattr(learners, name)(data, CONFIG)
    assert isinstance(learned, IQL)
    spec = EmbedSpec(model="one-hot", revision="1", dim=8)
    values = ValueModel(learned.q, learned.v, embed=spec, train_n=3)
    rows = data.vectors
    good, bad, _ = values.q(rows[[STATE]], rows[None, [GOOD, BAD, DEAD]], rows[[TASK]])[0]
    assert good > bad + 0.1


@pytest.mark.parametrize("name", ["cloning", "weighted", "conservative"])
def test_candidates_must_be_there(name: str, data: Transitions) -> None:
    bare = Transitions(**{field: getattr(data, field) for field in data.__slots__ if field != "others"})
    with pytest.raises(DataError, match=r"iql\.others"):
        getattr(learners, name)(bare, CONFIG)
