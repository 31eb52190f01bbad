"""A training that was stopped continues bit for bit; its curves."""

import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bestofq.core.concurrency import on_ctrl_c, run_interruptible
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import SetupError
from bestofq.core.transitions import Transitions
from bestofq.learning.checkpoint import load_learner, save_learner, training_tensors
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.tracking import open_tracker


def test_a_stopped_training_continues_bit_for_bit_from_what_was_saved(
    tmp_path: Path, data: Transitions, config: IQLConfig, embed: EmbedSpec
) -> None:
    save = partial(save_learner, tmp_path, embed=embed, train_n=3)

    def stop_at_40(iql: IQL) -> None:
        if iql.step == 40:
            raise KeyboardInterrupt

    config = config.model_copy(update={"steps": 60, "checkpoint_seconds": 0.0})
    with pytest.raises(KeyboardInterrupt):
        train_iql(data, config, save=save, on_step=stop_at_40)
    begun = load_learner(tmp_path, embed=embed)
    assert begun.step == 39
    ended, through = train_iql(data, config, resume=begun, save=save), train_iql(data, config)
    torch.testing.assert_close(training_tensors(ended), training_tensors(through), rtol=0, atol=0)


def test_ctrl_c_ends_a_training_at_once_within_an_event_loop() -> None:
    async def train() -> None:
        with on_ctrl_c(signal.default_int_handler):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptible(train())
    finally:
        signal.signal(signal.SIGINT, before)


def test_it_is_saved_by_time_and_not_after_the_last_step(data: Transitions, config: IQLConfig) -> None:
    saved: list[int] = []
    often, never = (config.model_copy(update={"steps": 5, "checkpoint_seconds": each}) for each in (0.0, 1e9))
    train_iql(data, often, save=lambda iql: saved.append(iql.step))
    train_iql(data, never, save=lambda iql: saved.append(-1))
    assert saved == [1, 2, 3, 4]


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


def test_only_the_first_process_keeps_rows_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    for folder in (None, tmp_path / "curves"):
        with open_tracker(folder) as log:
            log(1, {"loss": 1.0})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"bestofq\[tensorboard\]"), open_tracker(tmp_path):
        pass
