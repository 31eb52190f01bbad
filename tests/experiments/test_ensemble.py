"""An ensemble's caution, by hand."""

import numpy as np
import pytest

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from experiments.ensemble import cautious, lower_bound

VALUES = np.array([[1, 2, 4], [2, 3, 1], [3, 4, 7]], np.float32)  # of the third: +3, -1, +4 beside the first


def test_what_all_find_better_counts_whole_and_what_they_dispute_less() -> None:
    assert lower_bound(VALUES, 0.0).tolist() == [0.0, 1.0, 2.0]
    deviation = np.sqrt(((3 - 2) ** 2 + (-1 - 2) ** 2 + (4 - 2) ** 2) / 2)
    np.testing.assert_allclose(lower_bound(VALUES, 1.0), [0.0, 1.0, 2 - deviation], rtol=1e-6)


def test_one_q_function_is_no_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTOFQ_ENSEMBLE", "q0")
    with pytest.raises(ConfigError, match="fewer than 2"):
        cautious(Models(BestOfQSettings()))
