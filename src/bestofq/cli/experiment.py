"""`bestofq experiment`: the full recipe and its results, as files that are committed."""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bestofq.cli.writing import write_json
from bestofq.core.errors import InputError
from bestofq.envs.miniwob.suite import HELD_OUT
from bestofq.learning.checkpoint import load_value
from bestofq.recipes.agent_q_study import ORDER, ZERO, study
from bestofq.recipes.benchmark import AGENTS, compare
from bestofq.recipes.best_of_q import SEED_RUN, best_of_q, cycle_run
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import commit
from bestofq.recipes.ranking import by_kind, oracle_steps
from bestofq.recipes.settings import BestOfQSettings
from bestofq.recipes.worlds import open_world
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.curve import dev_curve, success_rate
from bestofq.reports.diagnosis import Options
from bestofq.reports.domains import domain_grid, domain_of, domain_results
from bestofq.reports.figures import learning_curve_svg, success_bars_svg
from bestofq.reports.methods import (
    OVER,
    MethodEpisode,
    calls_svg,
    method_episodes,
    method_results,
    method_table,
    read_method_episodes,
    write_method_episodes,
)
from bestofq.reports.q_functions import BASELINE
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.searches import search_rows
from bestofq.reports.success import agent_results, success_table
from bestofq.store.configuration import agree
from bestofq.store.run_names import DEV_BASE, dev_run
from bestofq.store.store import Store
from bestofq.viewer.export import export

TEST = "test"


async def run_experiment(
    parts: Parts, console: Console, *, out: Path, results: Path, tasks: int, runs: int, dev_tasks: int = 150
) -> None:
    """A.2 in full; a pass over dev tasks after each training (Fig. 4); then all agents on test tasks (Table 2)."""
    settings = parts.settings
    with Store.open(out) as store:
        async with open_world(parts) as world:
            values = await best_of_q(parts, world, store, out / "q", console)
            for cycle in range(settings.cycles + 1):
                await compare(
                    parts,
                    world,
                    store,
                    dev_run(cycle),
                    console,
                    agents=["best-of-q"],
                    values=load_value(out / "q" / f"q{cycle}", embed=parts.embedder.spec),
                    split="dev",
                    tasks=dev_tasks,
                    runs=1,
                )
            await compare(
                parts,
                world,
                store,
                DEV_BASE,
                console,
                agents=["prompting"],
                values=None,
                split="dev",
                tasks=dev_tasks,
                runs=1,
            )
            await compare(
                parts,
                world,
                store,
                TEST,
                console,
                agents=AGENTS,
                values=values,
                split="test",
                tasks=tasks,
                runs=runs,
            )
        curve = dev_curve(store)
        test = Selection(runs=[TEST], agents=AGENTS, baseline=BASELINE)
        results_of_test, costs = agent_results(store, test), agent_costs(store, test)
        base = success_rate(store.summaries(run=DEV_BASE, agent="prompting"))
        rated = {
            agent: list(oracle_steps(parts, store.episodes(run=TEST, agent=agent)))
            for agent in AGENTS
            if agent != BASELINE
        }
        collected = {run: _collected(store, run) for run in (SEED_RUN, *map(cycle_run, range(1, settings.cycles + 1)))}
        results.mkdir(parents=True, exist_ok=True)
        result: dict[str, object] = {
            **made_by(parts.settings),
            "collected": collected,
            "dev_curve": [point.model_dump() for point in curve],
            "dev_prompting": base,
            "test": results_of_test.model_dump(mode="json"),
            "costs": costs.model_dump(mode="json"),
            "ranking_on_test": {
                agent: {kind: asdict(row) for kind, row in by_kind(steps).items()} for agent, steps in rated.items()
            },
        }
        tables = success_table(results_of_test).to_markdown()
        if settings.suite.name == "miniwob":
            families, by_task = domain_results(store, test, by=family_of), domain_results(store, test)
            result["families"] = families.model_dump(mode="json")
            result["by_task"] = by_task.model_dump(mode="json")
            tables += f"\n{domain_grid(families).to_markdown()}\n{domain_grid(by_task).to_markdown()}"
        write_json(results / "result.json", result)
        (results / "table.md").write_text(tables, "utf-8")
        (results / "success.svg").write_text(success_bars_svg(results_of_test), "utf-8")
        (results / "curve.svg").write_text(learning_curve_svg(curve, baseline=base), "utf-8")
        options = Options(
            curve=curve, curve_baseline=(BASELINE, base), rated={k: v for k, v in rated.items() if v} or None
        )
        export(store, gather(store, replace(test, agents=None), options), out / "report", title="Best-of-Q")
    console.print(success_table(results_of_test).titled("Held-out test tasks"))
    console.print(cost_table(costs))
    console.print(f"written: {results / 'result.json'}, {out / 'report' / 'index.html'}")


async def run_study(
    parts: Parts, console: Console, *, out: Path, results: Path, tasks: int, seeds: Sequence[int], title: str
) -> None:
    """Agent Q's comparison (Figs. 3 and 6), as files that are committed.

    Models that `results` holds from other seeds, trained elsewhere perhaps, stay in its table. InputError where they
    were made with other settings, a model of other weights or on another number of tasks, and where neither they nor
    `seeds` play the baseline.
    """
    made = {**made_by(parts.settings), "tasks": tasks, "revision": parts.model.revision, "models": [*seeds]}
    _, kept = _earlier(results, made)  # refuses before the hours of training
    if 0 not in seeds and not any(episode.method == ZERO for episode in kept):
        raise InputError(
            f"{results} holds no episode of {ZERO}, to which the others are compared and which is played with seed 0: "
            "train that first (--first 0), or give --results the folder that holds it"
        )
    with Store.open(out) as store:
        passes = await study(parts, store, out, console, tasks=tasks, seeds=seeds)
        chosen, runs = parts.settings.agent_q, [run.name for run in store.runs()]
        searches = search_rows(store, runs, alpha=chosen.alpha, threshold=chosen.threshold)
        episodes = method_episodes(store, passes)
    before, kept = _earlier(results, made)  # once more: another call may have added its models since
    episodes += kept
    episodes.sort(key=lambda e: (ORDER.index(e.method), e.model, e.task))
    methods = method_results(episodes, baseline=ZERO, at_once=parts.settings.suite.at_once)
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
    (results / "success.svg").write_text(success_bars_svg(methods, over=OVER), "utf-8")
    (results / "calls.svg").write_text(calls_svg(methods), "utf-8")
    console.print(table.titled(title))
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
        if not agree(old[name], json.loads(json.dumps(made[name]))):
            raise InputError(
                f"{results} holds models of other seeds ({models}) that were made with another {name}: give --results "
                "another folder, or remove what it holds"
            )
    calls = [*({**call, "searches": []} for call in old["earlier"]), old]
    return [call for call in calls if not set(call["models"]) <= set(made["models"])], kept


def made_by(settings: BestOfQSettings) -> dict[str, object]:
    """What a committed result says of where it comes from."""
    return {
        "command": "bestofq " + " ".join(sys.argv[1:]),
        "seed": settings.seed,
        "commit": commit(),
        "machine": {"cpu": platform.processor() or platform.machine(), "python": platform.python_version()},
        "settings": settings.model_dump(mode="json"),
    }


def family_of(task: str) -> str:
    """Whether the families that a MiniWoB++ task belongs to were kept out of all training."""
    held_out = {name for names in HELD_OUT.values() for name in names}
    return "held-out families" if domain_of(task) in held_out else "families seen"


def _collected(store: Store, run: str) -> dict[str, float]:
    episodes = store.summaries(run=run)
    return {
        "episodes": len(episodes),
        "success": success_rate(episodes),
        "transitions": sum(episode.steps for episode in episodes),
    }
