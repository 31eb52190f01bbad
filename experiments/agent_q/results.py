"""Agent Q's comparison as files that are committed: `python -m experiments agent-q`."""

from collections.abc import Sequence
from pathlib import Path

from bestofq.cli.writing import write_json
from bestofq.config.models import Models
from bestofq.recipes.identity import made_by
from bestofq.reports.searches import search_rows
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from experiments.agent_q.comparison import ORDER, ZERO, compare_methods
from experiments.agent_q.methods import method_episodes, method_results, method_table, write_method_episodes
from experiments.figures import draw_pictures


async def run_agent_q(
    models: Models, *, out: Path, results: Path, tasks: int, seeds: Sequence[int], from_rft: bool = False
) -> None:
    """Agent Q's comparison (Figs. 3 and 6), as files that are committed. `seeds` has 0, which plays the baseline."""
    with Store.open(out) as store:
        passes = await compare_methods(models, store, out, tasks=tasks, seeds=seeds, from_rft=from_rft)
        chosen, runs = models.settings.agent_q, [run.name for run in store.runs()]
        searches = search_rows(store, runs, alpha=chosen.alpha, threshold=chosen.threshold)
        episodes = method_episodes(store, passes)
    episodes.sort(key=lambda e: (ORDER.index(e.method), e.model, e.task))
    methods = method_results(episodes, baseline=ZERO, at_once=models.settings.suite.at_once)
    results.mkdir(parents=True, exist_ok=True)
    result = {
        **made_by(models.settings),
        "tasks": tasks,
        "revision": models.local.revision,
        "models": [*seeds],
        "searches": [row.model_dump(mode="json") for row in searches],
        "test": methods.model_dump(mode="json"),
    }
    write_method_episodes(results / "episodes.csv", episodes)
    write_json(results / "result.json", result)
    table = method_table(methods)
    (results / "table.md").write_text(table.to_markdown(), "utf-8")
    for name, picture in draw_pictures(results, result).items():
        (results / name).write_text(picture, "utf-8")
    console.print(table.with_title(f"{models.settings.suite.name}: held-out test tasks"))
    console.print(f"written: {results / 'result.json'}")
