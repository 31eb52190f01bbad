"""The full recipe and its results, as files that are committed: `python -m experiments best-of-q`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bestofq.cli.writing import write_json
from bestofq.core.observation import Split
from bestofq.envs.miniwob.suite import HELD_OUT
from bestofq.learning.checkpoint import load_value
from bestofq.learning.value import ValueModel
from bestofq.recipes.benchmark import AGENTS, compare
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import made_by
from bestofq.recipes.settings import AgentKind
from bestofq.recipes.worlds import open_world
from bestofq.reports.costs import cost_table
from bestofq.reports.curve import dev_base, dev_curve, success_rate
from bestofq.reports.domains import domain_of, domain_table
from bestofq.reports.figures import learning_curve_svg, success_bars_svg
from bestofq.reports.html import write_report
from bestofq.reports.recall import recall
from bestofq.reports.table import result_table
from bestofq.store.run_names import DEV_BASE, SEED_RUN, cycle_run, dev_run
from bestofq.store.store import Store
from experiments.ranking import by_kind, oracle_steps

TEST = "test"
BASELINE: AgentKind = "prompting"


async def run_best_of_q(
    parts: Parts, console: Console, *, out: Path, results: Path, tasks: int, runs: int, dev_tasks: int = 150
) -> None:
    """A.2 in full; a pass over dev tasks after each training (Fig. 4); then all agents on test tasks (Table 2)."""
    with Store.open(out) as store:
        async with open_world(parts) as world:
            values = await best_of_q(parts, world, store, out / "q", console)

            async def play(
                run: str,
                agents: Sequence[AgentKind],
                values: ValueModel | None,
                split: Split,
                tasks: int,
                runs: int = 1,
            ) -> None:
                await compare(
                    parts,
                    world,
                    store,
                    run,
                    console,
                    agents=agents,
                    values=values,
                    split=split,
                    tasks=tasks,
                    runs=runs,
                )

            for cycle in range(parts.settings.cycles + 1):
                learned = load_value(out / "q" / f"q{cycle}", embed=parts.embedder.spec)
                await play(dev_run(cycle), ["best-of-q"], learned, "dev", dev_tasks)
            await play(DEV_BASE, [BASELINE], None, "dev", dev_tasks)
            await play(TEST, AGENTS, values, "test", tasks, runs)
        _write(parts, store, out, results, console)


def _write(parts: Parts, store: Store, out: Path, results: Path, console: Console) -> None:
    """The committed files, and the page beside the episodes."""
    curve, base = dev_curve(store), dev_base(store)
    level = base[1] if base else None
    table = result_table(store, runs=[TEST], agents=AGENTS, baseline=BASELINE)
    rated = {
        agent: list(oracle_steps(parts, store.episodes(run=TEST, agent=agent))) for agent in AGENTS if agent != BASELINE
    }
    learned = (SEED_RUN, *map(cycle_run, range(1, parts.settings.cycles + 1)))
    result: dict[str, object] = {
        **made_by(parts.settings),
        "collected": {run: _collected(store, run) for run in learned},
        "dev_curve": [point.model_dump() for point in curve],
        "dev_prompting": level,
        "test": json.loads(table.to_json()),
        "ranking_on_test": {
            agent: {kind: asdict(row) for kind, row in by_kind(steps).items()} for agent, steps in rated.items()
        },
    }
    tables = table.to_markdown()
    if parts.settings.suite.name == "miniwob":
        families = domain_table(store, runs=[TEST], agents=AGENTS, baseline=BASELINE, by=family_of)
        by_task = domain_table(store, runs=[TEST], agents=AGENTS, baseline=BASELINE)
        result["families"] = json.loads(families.to_json())
        result["by_task"] = json.loads(by_task.to_json())
        tables += f"\n{families.to_markdown()}\n{by_task.to_markdown()}"
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / "result.json", result)
    (results / "table.md").write_text(tables, "utf-8")
    (results / "success.svg").write_text(success_bars_svg(table), "utf-8")
    (results / "curve.svg").write_text(learning_curve_svg(curve, baseline=level), "utf-8")
    write_report(
        store,
        out / "report.html",
        title="Best-of-Q",
        runs=[TEST],
        baseline=BASELINE,
        curve=curve,
        curve_baseline=base,
        diagnostics={agent: recall(agent, steps).split for agent, steps in rated.items() if steps},
    )
    console.print(table.to_rich("Held-out test tasks"))
    console.print(cost_table(store, runs=[TEST], agents=AGENTS).to_rich("Costs"))
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
