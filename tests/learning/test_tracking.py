"""Where training curves go. TensorBoard is real; of W&B and MLflow the modules are fakes, as each is large."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bestofq.core.errors import ConfigError, SetupError
from bestofq.learning.tracking import open_tracker
from bestofq.learning.training import train_stoppable
from bestofq.testing.contracts import LEARNING, two_steps

CONFIG = LEARNING.model_copy(update={"steps": 6, "log_every": 2})


def learned(to: str | None, out: Path) -> list[dict[str, float]]:
    """The rows of a short training whose curves go there."""
    rows = []
    with open_tracker(to, out) as log:

        def on_row(row: Any) -> None:
            rows.append(row.model_dump())
            log(row.step, row.model_dump(exclude={"step"}))

        train_stoppable(two_steps(), CONFIG, on_row=on_row)
    return rows


def test_tensorboard_s_event_file_has_each_row(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = learned("tensorboard", tmp_path / "q")
    events = EventAccumulator(str(tmp_path / "q" / "tensorboard"))
    events.Reload()
    for name in ("q_loss", "v_loss", "q_mean", "lr_q"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert found == [(row["step"], pytest.approx(row[name])) for row in rows]
    assert [row["step"] for row in rows] == [2, 4, 6]


def test_a_project_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    run = SimpleNamespace(log=lambda numbers, step: said.append((step, numbers)), finish=lambda: said.append("finish"))
    wandb = ModuleType("wandb")
    wandb.init = lambda **given: said.append(given) or run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    learned("wandb:shops", tmp_path / "q0")
    first, *rows, last = said
    assert (first, last) == ({"project": "shops", "name": "q0"}, "finish")
    assert [step for step, _ in rows] == [2, 4, 6]
    assert all("q_loss" in numbers for _, numbers in rows)


def test_a_run_at_mlflow_s_address_ends_even_where_training_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    mlflow = ModuleType("mlflow")
    for name in ("set_tracking_uri", "start_run", "log_metrics", "end_run"):
        setattr(mlflow, name, lambda *given, name=name, **named: said.append((name, *given, *named.values())))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)

    def train() -> None:
        with open_tracker("mlflow:http://a.test", tmp_path / "q0") as log:
            log(3, {"loss": 0.5})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    wanted = [("set_tracking_uri", "http://a.test"), ("start_run", "q0"), ("log_metrics", {"loss": 0.5}, 3)]
    assert said == [*wanted, ("end_run",)]


def test_without_a_name_nothing_is_kept(tmp_path: Path) -> None:
    assert learned(None, tmp_path / "q")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_name_or_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        learned("nowhere", tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    with pytest.raises(SetupError, match=r"bestofq\[wandb\]"):
        learned("wandb", tmp_path)


def test_of_several_processes_the_first_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with open_tracker("tensorboard", tmp_path / "q") as log:
        log(1, {"loss": 1.0})
    assert list(tmp_path.iterdir()) == []
