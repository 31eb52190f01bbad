"""Agent Q's comparison, small, with a model that is a script."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scripted_shop import Scripted, models_with, small_recipe

from bestofq.learning.config import NetworkConfig
from bestofq.reports import stats
from bestofq.reports.stats import Attempt
from bestofq.store.store import Store
from experiments.agent_q import methods, over_models
from experiments.agent_q.comparison import AGENT_Q, AGENT_Q_MCTS, MCTS, ZERO, compare_methods
from experiments.best_of_q import COMPARED, run_best_of_q


async def test_each_seed_trains_apart_and_all_methods_play_the_same_tasks(tmp_path: Path, weights: str) -> None:
    settings = models_with(24, candidates=8, model=weights).settings
    changes: dict[str, dict[str, object]] = {
        "agent_q": {"tasks": 3},
        "suite": {"train_tasks": 20},
        "iql": {"steps": 20, "network": NetworkConfig(hidden=(32,), project=None)},
    }
    update = {name: getattr(settings, name).model_copy(update=change) for name, change in changes.items()}
    models = Scripted(settings.model_copy(update={**update, "seed_runs": 1}))
    with Store.open(tmp_path / "store") as store:
        passes = await compare_methods(models, store, tmp_path, tasks=3, seeds=range(2), from_rft=True)
        episodes = sum(len(store.summaries(run=run.name)) for run in store.runs())
        again = await compare_methods(models, store, tmp_path, tasks=3, seeds=range(2), from_rft=True)
        assert episodes == sum(len(store.summaries(run=run.name)) for run in store.runs())
        table = methods.method_results(methods.method_episodes(store, passes), baseline=ZERO, at_once=128)
        tasks = [{tree.task.id for tree in store.trees.all(run)} for run in ("search 0", "search rft 0", "search 1")]
    assert passes == again
    assert [len(passes[method]) for method in (ZERO, AGENT_Q, MCTS)] == [1, 2, 1]
    assert {row.tasks for row in table.rows} == {3}
    assert not tasks[0] & tasks[1]
    assert not (tasks[0] | tasks[1]) & tasks[2]
    rows = {row.agent: row for row in table.rows}
    assert sum(rows[MCTS].calls.values()) > 10 * sum(rows[ZERO].calls.values())
    assert rows[MCTS].calls["critic"] > 0
    assert rows[AGENT_Q].success.error is not None
    assert rows[ZERO].difference is None
    assert methods.calls_svg(table).count("<circle") == len(table.rows)
    assert f"| {ZERO} |" in methods.method_table(table).to_markdown()
    assert any("see the environment's reward" in note and AGENT_Q_MCTS in note for note in table.notes)


async def test_the_files_hold_the_recipe_s_curve_and_all_agents(tmp_path: Path, weights: str) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    await run_best_of_q(small_recipe(weights), out=out, results=results, tasks=1, runs=1, dev_tasks=1)
    with Store.open(out, read_only=True) as store:
        episodes = sum(len(store.summaries(run=run.name)) for run in store.runs())
    found = json.loads((results / "result.json").read_text("utf-8"))
    assert episodes == 2 * 3 + 3 + len(COMPARED)  # seed and cycle; dev passes of q0, q1 and prompting; test
    assert set(found) >= {"command", "commit", "settings", "collected", "dev_curve", "dev_prompting", "test"}
    assert list(found["collected"]) == ["seed", "cycle-1"]
    assert [point["episodes"] for point in found["dev_curve"]] == [3, 6]
    assert [row["agent"] for row in found["test"]["rows"]] == [*COMPARED]
    ranked = found["ranking_on_test"]
    assert set(ranked) == {*COMPARED} - {"prompting"}
    assert ranked["best-of-q"]["all"]["steps"] > 0
    for name in ("table.md", "success.svg", "curve.svg"):
        assert (results / name).stat().st_size
    pages = "".join(page.read_text("utf-8") for page in (out / "report").glob("*.html"))
    assert "Where steps go wrong" in pages


def attempts(*models: tuple[int, int]) -> list[Attempt]:
    """Of each model how many tasks it solves, the first ones, of how many."""
    return [
        Attempt(task=task, run=model, success=task < won, steps=1)
        for model, (won, of) in enumerate(models)
        for task in range(of)
    ]


def test_tasks_alike_leave_the_t_interval_over_models() -> None:
    # 0.4, 0.5 and 0.6 on whatever task: their error is 0.1 / √3, t of 2 degrees of freedom 4.303
    shares = (4, 5, 6)
    tried = [
        Attempt(task=task, run=(model, at), success=at < won, steps=1)
        for task in range(100)
        for model, won in enumerate(shares)
        for at in range(10)
    ]
    of_model = [a._replace(run=a.run[0]) for a in tried if isinstance(a.run, tuple)]
    found = over_models.success_interval(of_model)
    assert (found.low, found.high) == pytest.approx((0.5 - 4.303 * 0.0577, 0.5 + 4.303 * 0.0577), abs=0.02)


def test_a_difference_that_one_lucky_training_made_is_not_clear() -> None:
    ours, theirs = attempts((88, 200), (64, 200), (167, 200)), attempts((59, 200))
    over_tasks = stats.paired_difference(stats.Tries.of(ours), stats.Tries.of(theirs))
    found = over_models.paired_difference(ours, theirs)
    assert over_tasks.clear  # by tasks alone
    assert not found.clear
    assert found.mean == pytest.approx((44 + 32 + 83.5) / 300 - 0.295)
    # the error of 0.156 times 4.303 is 0.67: ours anywhere in [0, 1], less 0.295 give or take the tasks
    assert found.low == pytest.approx(-0.295, abs=0.07)
    assert found.high == pytest.approx(0.705, abs=0.07)


def test_what_is_alike_throughout_has_the_bounds_of_so_few_tasks() -> None:
    all_won = attempts((10, 10), (10, 10))
    found = over_models.success_interval(all_won)
    assert (found.low, found.high) == pytest.approx((0.025**0.1, 1.0))
    same = over_models.paired_difference(all_won, attempts((10, 10)))
    assert (same.low, same.high) == pytest.approx((0.025**0.1 - 1, 1 - 0.025**0.1))
    assert over_models.paired_difference(all_won, [Attempt(task="x", run=0, success=True, steps=1)]) is None


def test_the_interval_of_a_mean_is_over_tasks_and_over_models() -> None:
    steps = [(task, 0, 10 + 2 * (task % 2)) for task in range(100)]  # mean 11, deviation 1 over tasks
    alone = over_models.mean(steps)
    assert (alone.value, alone.error) == (11.0, None)
    assert (alone.interval.low, alone.interval.high) == pytest.approx((11 - 1.96 * 0.1, 11 + 1.96 * 0.1), abs=0.03)
    several = over_models.mean([(task, model, 10 + model) for task in range(100) for model in range(3)])
    assert (several.value, several.error) == (11.0, pytest.approx(1 / np.sqrt(3)))
    assert (several.interval.low, several.interval.high) == pytest.approx(
        (11 - 4.303 * 0.577, 11 + 4.303 * 0.577), abs=0.15
    )
    assert over_models.mean([("a", 0, 3.0)]).interval is None


def test_a_file_of_episodes_has_a_line_each(tmp_path: Path) -> None:
    told = {"method": AGENT_Q, "model": 1, "run": "r", "agent": "prompting", "task": "booking/3", "success": True}
    spent = {"steps": 12, "seconds": 1.25, "tokens_out": 300, "calls": {"proposer": 12, "critic": 3}}
    episode = methods.MethodEpisode(**told, **spent)
    methods.write_method_episodes(tmp_path / "episodes.csv", [episode, episode])
    row, again = csv.DictReader((tmp_path / "episodes.csv").read_text("utf-8").splitlines())
    assert row == again
    assert (row["method"], row["success"], row["calls_critic"], row["calls_judge"]) == (AGENT_Q, "True", "3", "0")
