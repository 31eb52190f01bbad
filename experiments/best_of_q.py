"""The full recipe and its results, as files that are committed: `python -m experiments best-of-q`."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bestofq.cli.writing import write_json
from bestofq.envs.miniwob.suite import HELD_OUT
from bestofq.learning.checkpoint import load_value
from bestofq.recipes.benchmark import AGENTS, compare
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import made_by
from bestofq.recipes.worlds import open_world
from bestofq.reports.costs import cost_table
from bestofq.reports.curve import dev_curve, success_rate
from bestofq.reports.domains import domain_of, domain_table
from bestofq.reports.figures import learning_curve_svg, success_bars_svg
from bestofq.reports.html import write_report
from bestofq.reports.recall import recall
from bestofq.reports.table import result_table
from bestofq.store.run_names import DEV_BASE, SEED_RUN, cycle_run, dev_run
from bestofq.store.store import Store
from experiments.ranking import by_kind, oracle_steps

TEST = "test"


async def run_best_of_q(
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
        table = result_table(store, runs=[TEST], agents=AGENTS, baseline="prompting")
        costs = cost_table(store, runs=[TEST], agents=AGENTS)
        base = success_rate(store.summaries(run=DEV_BASE, agent="prompting"))
        rated = {
            agent: list(oracle_steps(parts, store.episodes(run=TEST, agent=agent)))
            for agent in AGENTS
            if agent != "prompting"
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
                agent: {kind: asdict(row) for kind, row in by_kind(steps).items()} for agent, steps in rated.items()
            },
        }
        tables = table.to_markdown()
        if settings.suite.name == "miniwob":
            families = domain_table(store, runs=[TEST], agents=AGENTS, baseline="prompting", by=family_of)
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
            diagnostics={agent: recall(agent, steps).split for agent, steps in rated.items() if steps},
        )
    console.print(table.to_rich("Held-out test tasks"))
    console.print(costs.to_rich("Costs"))
    console.print(f"written: {results / 'result.json'}, {out / 'report.html'}")


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
