"""`bestofq experiment`: the full recipe and its results, as files that are committed."""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from bestofq.cli.writing import write_json
from bestofq.core.errors import InputError
from bestofq.learning.checkpoint import load_value
from bestofq.recipes.agent_q_study import ORDER, ZERO, study
from bestofq.recipes.benchmark import AGENTS, compare, success_rate
from bestofq.recipes.best_of_q import SEED_RUN, best_of_q, cycle_run
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import commit
from bestofq.recipes.ranking import Ranking, ranking_of
from bestofq.recipes.settings import BestOfQSettings
from bestofq.recipes.worlds import open_world
from bestofq.reports.costs import cost_table
from bestofq.reports.domains import domain_table
from bestofq.reports.figures import CurvePoint, FailureSplit, learning_curve_svg, success_bars_svg
from bestofq.reports.html import write_report
from bestofq.reports.methods import (
    OVER,
    MethodEpisode,
    calls_svg,
    method_episodes,
    method_table,
    read_method_episodes,
    write_method_episodes,
)
from bestofq.reports.searches import search_table
from bestofq.reports.stats import success_interval
from bestofq.reports.table import attempts_of, result_table
from bestofq.store.configuration import agree
from bestofq.store.store import Store

TEST = "test"
DEV_BASE = "dev-base"


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
                    _dev_run(cycle),
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
        table = result_table(store, runs=[TEST], agents=AGENTS, baseline="prompting")
        costs = cost_table(store, runs=[TEST], agents=AGENTS)
        base = success_rate(store.summaries(run=DEV_BASE, agent="prompting"))
        ranks = {
            agent: ranking_of(parts, store.episodes(run=TEST, agent=agent)) for agent in AGENTS if agent != "prompting"
        }
        collected = {run: _collected(store, run) for run in (SEED_RUN, *map(cycle_run, range(1, settings.cycles + 1)))}
        results.mkdir(parents=True, exist_ok=True)
        result: dict[str, object] = {
            **made_by(parts.settings),
            "collected": collected,
            "dev_curve": [point.model_dump() for point in curve],
            "dev_prompting": base,
            "test": json.loads(table.to_json()),
            "ranking_on_test": {
                agent: {kind: asdict(row) for kind, row in rows.items()} for agent, rows in ranks.items()
            },
        }
        tables = table.to_markdown()
        if settings.suite.families_apart:
            families = domain_table(
                store, runs=[TEST], agents=AGENTS, baseline="prompting", by=settings.suite.family_of
            )
            by_task = domain_table(store, runs=[TEST], agents=AGENTS, baseline="prompting")
            result["families"] = json.loads(families.to_json())
            result["by_task"] = json.loads(by_task.to_json())
            tables += f"\n{families.to_markdown()}\n{by_task.to_markdown()}"
        write_json(results / "result.json", result)
        (results / "table.md").write_text(tables, "utf-8")
        (results / "success.svg").write_text(success_bars_svg(table), "utf-8")
        (results / "curve.svg").write_text(learning_curve_svg(curve, baseline=base), "utf-8")
        write_report(
            store,
            out / "report.html",
            title="Best-of-Q",
            runs=[TEST],
            baseline="prompting",
            curve=curve,
            curve_baseline=("prompting", base),
            diagnostics={agent: failure_split(rows["all"]) for agent, rows in ranks.items() if rows},
        )
    console.print(table.to_rich("Held-out test tasks"))
    console.print(costs.to_rich("Costs"))
    console.print(f"written: {results / 'result.json'}, {out / 'report.html'}")


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
        searches = search_table(store, runs, alpha=chosen.alpha, threshold=chosen.threshold)
        episodes = method_episodes(store, passes)
    before, kept = _earlier(results, made)  # once more: another call may have added its models since
    episodes += kept
    episodes.sort(key=lambda e: (ORDER.index(e.method), e.model, e.task))
    table = method_table(episodes, baseline=ZERO, at_once=parts.settings.suite.at_once)
    rows = [json.loads(row.model_dump_json()) for row in searches.rows]
    searched = {row["run"]: row for old in before for row in old["searches"]} | {row["run"]: row for row in rows}
    results.mkdir(parents=True, exist_ok=True)
    result = {
        **made,
        "searches": list(searched.values()),
        "test": json.loads(table.model_dump_json()),
        "earlier": [{name: old[name] for name in _WHERE} for old in before],
    }
    write_method_episodes(results / "episodes.csv", episodes)
    write_json(results / "result.json", result)
    (results / "table.md").write_text(table.to_markdown(), "utf-8")
    (results / "success.svg").write_text(success_bars_svg(table, over=OVER), "utf-8")
    (results / "calls.svg").write_text(calls_svg(table), "utf-8")
    console.print(table.to_rich(title))
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


def dev_curve(store: Store) -> list[CurvePoint]:
    """Success of each Q-function on dev tasks against the episodes it learned from (Fig. 4); where no dev pass was
    made, on the training tasks of the next cycle. Empty for a store without the recipe's runs."""
    names = {run.name for run in store.runs()}
    points: list[CurvePoint] = []
    seen = won = 0
    for cycle in range(len(names)):
        learned = store.summaries(run=cycle_run(cycle) if cycle else SEED_RUN)
        seen, won = seen + len(learned), won + sum(episode.success for episode in learned)
        measured = next((name for name in (_dev_run(cycle), cycle_run(cycle + 1)) if name in names), None)
        episodes = store.summaries(run=measured, agent="best-of-q", status="finished") if measured else []
        if not episodes:
            break
        bounds = success_interval(attempts_of(episodes))
        points.append(
            CurvePoint(episodes=seen, successes=won, success=success_rate(episodes), low=bounds.low, high=bounds.high)
        )
    return points


def dev_base(store: Store) -> tuple[str, float] | None:
    """Prompting on the curve's dev tasks, and its success; None where no such pass was made."""
    episodes = store.summaries(run=DEV_BASE, agent="prompting")
    return ("prompting", success_rate(episodes)) if episodes else None


def _dev_run(cycle: int) -> str:
    return f"dev-q{cycle}"


def failure_split(row: Ranking) -> FailureSplit:
    """Fig. 3's three parts, as counts of steps."""
    proposed = round(row.steps * row.proposed)
    chosen = round(proposed * row.chosen)
    return FailureSplit(not_proposed=row.steps - proposed, not_chosen=proposed - chosen, chosen=chosen)


def _collected(store: Store, run: str) -> dict[str, float]:
    episodes = store.summaries(run=run)
    return {
        "episodes": len(episodes),
        "success": success_rate(episodes),
        "transitions": sum(episode.steps for episode in episodes),
    }
