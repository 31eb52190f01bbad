"""Agent Q's comparison, small, with a model that is a script."""

from pathlib import Path

from scripted_shop import Scripted, models_with

from bestofq.learning.config import NetworkConfig
from bestofq.store.store import Store
from experiments.agent_q.comparison import AGENT_Q, AGENT_Q_MCTS, MCTS, ZERO, compare_methods
from experiments.agent_q.methods import calls_svg, method_episodes, method_results, method_table


async def test_the_comparison_trains_each_seed_apart_and_plays_all_methods_on_the_same_tasks(
    tmp_path: Path, weights: str
) -> None:
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
        table = method_results(method_episodes(store, passes), baseline=ZERO, at_once=128, resamples=100)
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
    assert calls_svg(table).count("<circle") == len(table.rows)
    assert f"| {ZERO} |" in method_table(table).to_markdown()
    assert any("see the environment's reward" in note and AGENT_Q_MCTS in note for note in table.notes)
