"""Training curves, as TensorBoard reads them."""

import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bestofq.core.errors import SetupError
from bestofq.learning.tracking import open_tracker


def test_an_event_file_has_each_row(tmp_path: Path) -> None:
    rows = [(2, {"q_loss": 0.5, "lr_q": 0.1}), (4, {"q_loss": 0.25, "lr_q": 0.05})]
    with open_tracker(tmp_path / "curves") as log:
        for row in rows:
            log(*row)
    events = EventAccumulator(str(tmp_path / "curves"))
    events.Reload()
    for name in ("q_loss", "lr_q"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert found == [(step, pytest.approx(numbers[name])) for step, numbers in rows]


def test_without_a_folder_or_in_a_second_process_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    for folder in (None, tmp_path / "curves"):
        with open_tracker(folder) as log:
            log(1, {"loss": 1.0})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"bestofq\[tensorboard\]"), open_tracker(tmp_path):
        pass
