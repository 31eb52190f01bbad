"""The full recipe and its results, as files that are committed: `python -m experiments best-of-q`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bestofq.config.agents import AgentKind
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.envs.miniwob.settings import APART, MiniWobSettings
from bestofq.learning.checkpoint import load_value
from bestofq.recipes.best_of_q import best_of_q, plays
from bestofq.recipes.collect import DEFAULT_AGENTS, Play, collect, compare
from bestofq.recipes.identity import made_by
from bestofq.reports import stats
from bestofq.reports.costs import agent_costs, cost_table, pareto_svg
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import agent_results, domain_grid, domain_of, domain_results, success_table
from bestofq.rollouts.console import console
from bestofq.store.records import SEED_RUN, cycle_run
from bestofq.store.store import Store
from bestofq.viewer.export import export
from experiments.figures import write_results
from experiments.learning_curve import DEV_BASE, add_curves, dev_base, dev_curve, dev_run
from experiments.ranking import by_kind, oracle_steps
from experiments.recall import add_recall

TEST = "test"
COMPARED: tuple[AgentKind, ...] = (*DEFAULT_AGENTS, "vote", "verifier")
"""The last two learn nothing: they rank the same candidates by how many replies gave each, and by the model's own
review of it."""
AT_ENDPOINT: tuple[AgentKind, ...] = ("prompting", "random", "picker", "best-of-q")
"""Best-of-Q, Tables 2 and 3, diagonal: an endpoint reads no pocket prompts and need not give log-probabilities."""


def compared(settings: BestOfQSettings) -> tuple[AgentKind, ...]:
    """The agents of the test tasks."""
    return COMPARED if settings.endpoint_of("chat") is None else AT_ENDPOINT


def planned(settings: BestOfQSettings, *, tasks: int, runs: int, dev_tasks: int) -> list[tuple[str, Play]]:
    """All runs of `run_best_of_q` in order, with what is played in each."""
    dev = Play("best-of-q", split="dev", limit=dev_tasks)
    measured = [(dev_run(cycle), dev) for cycle in range(settings.cycles + 1)]
    measured.append((DEV_BASE, replace(dev, kind="prompting")))
    test = [(TEST, Play(kind, runs, split="test", limit=tasks)) for kind in compared(settings)]
    return [*plays(settings), *(measured if dev_tasks else []), *test]


async def run_best_of_q(
    models: Models, *, out: Path, results: Path, tasks: int, runs: int, dev_tasks: int = 150
) -> None:
    """A.2 in full; a pass over dev tasks after each training (Fig. 4), where there are any; then all agents on test
    tasks (Table 2)."""
    with Store.open(out) as store:
        async with open_suite(models) as suite:
            values = await best_of_q(models, suite, store, out / "q")
            for cycle in range(models.settings.cycles + 1 if dev_tasks else 0):
                learned = load_value(out / "q" / f"q{cycle}", embed=models.embedder.spec)
                play = Play("best-of-q", values=learned, split="dev", limit=dev_tasks)
                await collect(models, suite, store, dev_run(cycle), play)
            if dev_tasks:
                await collect(models, suite, store, DEV_BASE, Play("prompting", split="dev", limit=dev_tasks))
            agents = compared(models.settings)
            play = Play(repeats=runs, values=values, split="test", limit=tasks)
            await compare(models, suite, store, TEST, play, agents)
        _write(models, store, out, results, agents)


def _write(models: Models, store: Store, out: Path, results: Path, agents: Sequence[AgentKind]) -> None:
    """The committed files, and the page beside the episodes."""
    curve, base = dev_curve(store), dev_base(store)
    test = Selection(runs=[TEST], agents=agents, baseline=BASELINE)
    of_test, costs = agent_results(store, test), agent_costs(store, test)
    rankers = [agent for agent in agents if agent != BASELINE]
    rated = {agent: list(oracle_steps(models, store.episodes(run=TEST, agent=agent))) for agent in rankers}
    learned = (SEED_RUN, *map(cycle_run, range(1, models.settings.cycles + 1)))
    result: dict[str, object] = {
        **made_by(models.settings),
        "collected": {run: collected(store, run) for run in learned},
        "dev_curve": [point.model_dump() for point in curve],
        "dev_prompting": base[1] if base else None,
        "test": of_test.model_dump(mode="json"),
        "costs": costs.model_dump(mode="json"),
        "ranking_on_test": {agent: by_kind(steps) for agent, steps in rated.items()},
    }
    tables = success_table(of_test).to_markdown()
    suite = models.settings.suite
    groups: dict[str, Callable[[str], str]] = {"families": family_of} if isinstance(suite, MiniWobSettings) else {}
    if suite.groups:
        groups[f"by_{suite.groups}"] = domain_of
    for name, by in groups.items():
        grid = domain_results(store, test, by=by)
        result[name] = grid.model_dump(mode="json")
        tables += f"\n{domain_grid(grid).to_markdown()}"
    write_results(results, result, tables)
    if models.settings.endpoint_of("chat") is not None:
        (results / "cost.svg").write_text(pareto_svg(costs), "utf-8")
    found = add_curves(gather(store, replace(test, agents=None)), store)
    found = add_recall(found, {k: v for k, v in rated.items() if v})
    written = export(store, found, out / "report", title="Best-of-Q")
    console.print(success_table(of_test).with_title("Test tasks"))
    console.print(cost_table(costs))
    console.print(f"written: {written}")


def family_of(task: str) -> str:
    """Whether the families that a MiniWoB++ task belongs to were kept out of all training."""
    return "held-out families" if domain_of(task) in APART else "families seen"


def collected(store: Store, run: str) -> dict[str, float | None]:
    """Sizes of a run; `success` is None where no outcome tells."""
    episodes = store.summaries(run=run)
    attempts = stats.attempts_of(episodes)
    return {
        "episodes": len(episodes),
        "success": stats.success_rate(attempts).mean if attempts else None,
        "transitions": sum(episode.steps for episode in episodes),
    }
