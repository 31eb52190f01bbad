"""Each other learner prefers what led to success, on a page with three buttons; returns and steps ahead by hand."""

import numpy as np
import pytest

from bestofq.core.errors import DataError
from bestofq.core.transitions import Transitions
from bestofq.testing.contracts import LEARNING, check_learner, two_steps
from experiments import learners


@pytest.fixture
def data() -> Transitions:
    return two_steps()


def test_returns_by_hand(data: Transitions) -> None:
    np.testing.assert_allclose(learners.returns(data, 0.9)[:4], [0.9, 1.0, 0.0, 0.0], rtol=1e-6)
    assert data.ends[:4].tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("name", ["monte_carlo", "n_step", "cloning", "weighted", "conservative", "ranking"])
def test_it_keeps_to_a_learner_s_contract(name: str) -> None:
    check_learner(getattr(learners, name))


@pytest.mark.parametrize("name", ["cloning", "weighted", "conservative"])
def test_candidates_must_be_there(name: str, data: Transitions) -> None:
    bare = Transitions(**{field: getattr(data, field) for field in data.__slots__ if field != "others"})
    with pytest.raises(DataError, match=r"iql\.others"):
        getattr(learners, name)(bare, LEARNING)
