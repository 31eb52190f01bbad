"""Agent Q's comparison of models trained apart: each call adds its own to the files of the results."""

import json
from pathlib import Path

import pytest

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from experiments.agent_q import results as results_module
from experiments.agent_q.comparison import AGENT_Q, ZERO
from experiments.agent_q.methods import MethodEpisode, read_method_episodes


def _episode(method: str, model: int, task: int, *, success: bool) -> MethodEpisode:
    return MethodEpisode(
        method=method,
        model=model,
        run=f"{method} {model}",
        agent="prompting",
        task=f"booking/{task}",
        success=success,
        steps=12 + task,
        seconds=1.25,
        tokens_out=300,
        calls={"proposer": 12, "critic": model} if model else {"proposer": 12},
    )


def _played(model: int) -> list[MethodEpisode]:
    """Four tasks; the model with seed 1 solves one more than that with seed 0."""
    tasks = range(4)
    zero = [_episode(ZERO, 0, task, success=task == 0) for task in tasks] if model == 0 else []
    return [*zero, *(_episode(AGENT_Q, model, task, success=task < 2 + model) for task in tasks)]


async def _call(results: Path, monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """As the command does it, with `_played` for the hours of training and play."""

    async def at_once(*_: object, seeds: range, **__: object) -> range:
        return seeds

    monkeypatch.setattr(results_module, "compare_methods", at_once)
    monkeypatch.setattr(
        results_module, "method_episodes", lambda _, passes: [e for seed in passes for e in _played(seed)]
    )
    models, out = Models(BestOfQSettings()), results / f"store-{seeds.start}"
    await results_module.run_agent_q(models, out=out, results=results, tasks=4, seeds=seeds)


def _row(results: Path, method: str) -> dict[str, object]:
    rows = json.loads((results / "result.json").read_text("utf-8"))["test"]["rows"]
    return next(row for row in rows if row["agent"] == method)


async def test_a_second_call_adds_its_model_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _call(tmp_path, monkeypatch, range(1))
    assert _row(tmp_path, AGENT_Q)["success"] == {"mean": 0.5, "error": None, "runs": 1}
    await _call(tmp_path, monkeypatch, range(1, 2))
    assert _row(tmp_path, AGENT_Q)["success"] == pytest.approx({"mean": 0.625, "error": 0.125, "runs": 2})
    # two models: t of one degree of freedom is 12.7, so over other trainings success is anywhere
    assert _row(tmp_path, AGENT_Q)["interval"] == {"low": 0.0, "high": 1.0}
    assert _row(tmp_path, ZERO)["success"] == {"mean": 0.25, "error": None, "runs": 1}
    made = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert made["models"] == [1]
    assert [call["models"] for call in made["earlier"]] == [[0]]
    assert "62.5" in (tmp_path / "table.md").read_text("utf-8")
    await _call(tmp_path, monkeypatch, range(1, 2))  # again: takes its own place
    assert len(read_method_episodes(tmp_path / "episodes.csv")) == 12
