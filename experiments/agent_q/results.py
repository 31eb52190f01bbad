"""Agent Q's comparison as files that are committed: `python -m experiments agent-q`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bestofq.cli.writing import write_json
from bestofq.config.models import Models
from bestofq.core.errors import InputError
from bestofq.recipes.identity import made_by
from bestofq.reports.figures import bars_svg
from bestofq.reports.searches import search_rows
from bestofq.reports.stats import Measure
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from experiments.agent_q.comparison import ORDER, ZERO, compare_methods
from experiments.agent_q.methods import (
    OVER,
    MethodEpisode,
    calls_svg,
    method_episodes,
    method_results,
    method_table,
    read_method_episodes,
    write_method_episodes,
)


async def run_agent_q(
    models: Models, *, out: Path, results: Path, tasks: int, seeds: Sequence[int], from_rft: bool = False
) -> None:
    """Agent Q's comparison (Figs. 3 and 6), as files that are committed.

    Models that `results` holds from other seeds, trained elsewhere perhaps, stay in its table. InputError where they
    were made with other settings, a model of other weights or on another number of tasks, and where neither they nor
    `seeds` play the baseline.
    """
    made = {**made_by(models.settings), "tasks": tasks, "revision": models.local.revision, "models": [*seeds]}
    _, kept = _earlier(results, made)  # refuses before the hours of training
    if 0 not in seeds and not any(episode.method == ZERO for episode in kept):
        raise InputError(
            f"{results} holds no episode of {ZERO}, to which the others are compared and which is played with seed 0: "
            "train that first (--first 0), or give --results the folder that holds it"
        )
    with Store.open(out) as store:
        passes = await compare_methods(models, store, out, tasks=tasks, seeds=seeds, from_rft=from_rft)
        chosen, runs = models.settings.agent_q, [run.name for run in store.runs()]
        searches = search_rows(store, runs, alpha=chosen.alpha, threshold=chosen.threshold)
        episodes = method_episodes(store, passes)
    before, kept = _earlier(results, made)  # once more: another call may have added its models since
    episodes += kept
    episodes.sort(key=lambda e: (ORDER.index(e.method), e.model, e.task))
    methods = method_results(episodes, baseline=ZERO, at_once=models.settings.suite.at_once)
    rows = [row.model_dump(mode="json") for row in searches]
    searched = {row["run"]: row for old in before for row in old["searches"]} | {row["run"]: row for row in rows}
    results.mkdir(parents=True, exist_ok=True)
    result = {
        **made,
        "searches": list(searched.values()),
        "test": methods.model_dump(mode="json"),
        "earlier": [{name: old[name] for name in _WHERE} for old in before],
    }
    write_method_episodes(results / "episodes.csv", episodes)
    write_json(results / "result.json", result)
    table = method_table(methods)
    (results / "table.md").write_text(table.to_markdown(), "utf-8")
    bars = [(row.agent, Measure(value=row.success.mean, interval=row.interval)) for row in methods.rows]
    (results / "success.svg").write_text(bars_svg(bars, baseline=methods.baseline, over=OVER), "utf-8")
    (results / "calls.svg").write_text(calls_svg(methods), "utf-8")
    console.print(table.with_title(f"{models.settings.suite.name}: held-out test tasks"))
    console.print(f"written: {results / 'result.json'}")


_SAME = ("settings", "tasks", "revision")  # what models of one table have in common
_WHERE = ("models", "command", "commit", "machine")


def _earlier(results: Path, made: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[MethodEpisode]]:
    """What is known of the calls whose models stay in the table, and these models' episodes."""
    kept = [e for e in read_method_episodes(results / "episodes.csv") if e.model not in made["models"]]
    if not kept:
        return [], []
    old = json.loads((results / "result.json").read_text("utf-8"))
    models = ", ".join(map(str, sorted({episode.model for episode in kept})))
    for name in _SAME:
        if old[name] != json.loads(json.dumps(made[name])):
            raise InputError(
                f"{results} holds models of other seeds ({models}) that were made with another {name}: give --results "
                "another folder, or remove what it holds"
            )
    calls = [*({**call, "searches": []} for call in old["earlier"]), old]
    return [call for call in calls if not set(call["models"]) <= set(made["models"])], kept
