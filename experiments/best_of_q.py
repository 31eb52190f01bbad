"""The full recipe and its results, as files that are committed: `python -m experiments best-of-q`."""

from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.build.settings import AgentKind
from bestofq.cli.writing import write_json
from bestofq.envs.miniwob.settings import APART, MiniWobSettings
from bestofq.learning.checkpoint import load_value
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.collect import AGENTS, compare
from bestofq.recipes.provenance import made_by
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.curve import dev_base, dev_curve, success_rate
from bestofq.reports.diagnosis import Options
from bestofq.reports.domains import domain_grid, domain_of, domain_results
from bestofq.reports.figures import learning_curve_svg, success_bars_svg
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import agent_results, success_table
from bestofq.store.run_names import DEV_BASE, SEED_RUN, cycle_run, dev_run
from bestofq.store.store import Store
from bestofq.viewer.export import export
from experiments.ranking import by_kind, oracle_steps

TEST = "test"
COMPARED: tuple[AgentKind, ...] = (*AGENTS, "vote", "verifier")
"""The last two learn nothing: they rank the same candidates by how many replies gave each, and by the model's own
review of it."""


async def run_best_of_q(
    models: Models, console: Console, *, out: Path, results: Path, tasks: int, runs: int, dev_tasks: int = 150
) -> None:
    """A.2 in full; a pass over dev tasks after each training (Fig. 4); then all agents on test tasks (Table 2)."""
    with Store.open(out) as store:
        async with open_suite(models) as suite:
            context = RunContext(models, suite, store, console)
            values = await best_of_q(context, out / "q")
            for cycle in range(models.settings.cycles + 1):
                learned = load_value(out / "q" / f"q{cycle}", embed=models.embedder.spec)
                await compare(
                    context, dev_run(cycle), ["best-of-q"], values=learned, split="dev", tasks=dev_tasks, runs=1
                )
            await compare(context, DEV_BASE, ["prompting"], values=None, split="dev", tasks=dev_tasks, runs=1)
            await compare(context, TEST, COMPARED, values=values, split="test", tasks=tasks, runs=runs)
        _write(models, store, out, results, console)


def _write(models: Models, store: Store, out: Path, results: Path, console: Console) -> None:
    """The committed files, and the page beside the episodes."""
    curve, base = dev_curve(store), dev_base(store)
    level = base[1] if base else None
    test = Selection(runs=[TEST], agents=COMPARED, baseline=BASELINE)
    of_test, costs = agent_results(store, test), agent_costs(store, test)
    rated = {
        agent: list(oracle_steps(models, store.episodes(run=TEST, agent=agent)))
        for agent in COMPARED
        if agent != BASELINE
    }
    learned = (SEED_RUN, *map(cycle_run, range(1, models.settings.cycles + 1)))
    result: dict[str, object] = {
        **made_by(models.settings),
        "collected": {run: _collected(store, run) for run in learned},
        "dev_curve": [point.model_dump() for point in curve],
        "dev_prompting": level,
        "test": of_test.model_dump(mode="json"),
        "costs": costs.model_dump(mode="json"),
        "ranking_on_test": {
            agent: {kind: asdict(row) for kind, row in by_kind(steps).items()} for agent, steps in rated.items()
        },
    }
    tables = success_table(of_test).to_markdown()
    if isinstance(models.settings.suite, MiniWobSettings):
        families, by_task = domain_results(store, test, by=family_of), domain_results(store, test)
        result["families"] = families.model_dump(mode="json")
        result["by_task"] = by_task.model_dump(mode="json")
        tables += f"\n{domain_grid(families).to_markdown()}\n{domain_grid(by_task).to_markdown()}"
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / "result.json", result)
    (results / "table.md").write_text(tables, "utf-8")
    (results / "success.svg").write_text(success_bars_svg(of_test.rows, of_test.baseline), "utf-8")
    (results / "curve.svg").write_text(learning_curve_svg(curve, baseline=level), "utf-8")
    options = Options(curve=curve, curve_baseline=base, rated={k: v for k, v in rated.items() if v} or None)
    written = export(store, gather(store, replace(test, agents=None), options), out / "report", title="Best-of-Q")
    console.print(success_table(of_test).titled("Held-out test tasks"))
    console.print(cost_table(costs))
    console.print(f"written: {results / 'result.json'}, {written}")


def family_of(task: str) -> str:
    """Whether the families that a MiniWoB++ task belongs to were kept out of all training."""
    return "held-out families" if domain_of(task) in APART else "families seen"


def _collected(store: Store, run: str) -> dict[str, float]:
    episodes = store.summaries(run=run)
    return {
        "episodes": len(episodes),
        "success": success_rate(episodes),
        "transitions": sum(episode.steps for episode in episodes),
    }
