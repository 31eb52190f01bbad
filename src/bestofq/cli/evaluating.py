"""`bestofq eval`: agents on the same tasks, and the tables of what they reached."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bestofq.build.agents import proposer_name, shipped_q
from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.build.settings import AgentKind
from bestofq.cli.options import console
from bestofq.cli.planning import plan_episodes
from bestofq.cli.settings import kind_of, warned, with_values
from bestofq.cli.writing import write_out
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Split
from bestofq.recipes.collect import AGENTS, Play, compare
from bestofq.recipes.provenance import made_by
from bestofq.reports.costs import agent_costs, cost_table
from bestofq.reports.domains import domain_grid, domain_results
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import agent_results, success_table
from bestofq.store.store import Store


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    agents: str | None  # comma-separated; None: all that can play
    q: Path | None
    run: str
    split: Split
    tasks: int  # at most
    passes: int
    n: int | None


def evaluate_agents(models: Models, store: Path, options: Evaluation, out: Path | None, *, dry_run: bool) -> None:
    """Play the tasks with each agent, and print and write the tables."""
    given = None if options.agents is None else [kind_of(kind.strip()) for kind in options.agents.split(",")]
    kinds = _playable(models, options) if given is None else given
    models, values = with_values(models, options.q, kinds)
    if dry_run:
        plays = [Play(kind, options.passes, split=options.split, limit=options.tasks) for kind in kinds]
        plan_episodes(models, store, [(options.run, play) for play in plays])
        return
    named = warned(models)

    async def work() -> None:
        async with open_suite(models, named) as suite:
            if "prior" in kinds and not await models.gives_log_probs():
                sentence = f"{proposer_name(models.settings)} gives no log-probabilities, which the agent prior needs"
                if given is not None:
                    raise ConfigError(f"{sentence}: leave prior out of --agents")
                kinds.remove("prior")
                console.print(f"prior is left out: {sentence}.")
            with Store.open(store) as opened:
                context = RunContext(models, suite, opened, console)
                await compare(
                    context,
                    options.run,
                    kinds,
                    values=values,
                    split=options.split,
                    tasks=options.tasks,
                    runs=options.passes,
                    n=options.n,
                )
                _show(context, named.name, options, kinds, out)

    asyncio.run(work())


def _playable(models: Models, options: Evaluation) -> list[AgentKind]:
    """All agents; without a Q-function, those that need none."""
    if options.q or shipped_q(models.settings):
        return [*AGENTS]
    learned = [kind for kind in AGENTS if models.settings.reads_q(kind)]
    console.print(
        f"{' and '.join(learned)} are left out: no Q-function ships for {proposer_name(models.settings)} on "
        f"{models.settings.suite.name}, and --q gives none."
    )
    return [kind for kind in AGENTS if kind not in learned]


def _show(context: RunContext, suite: str, options: Evaluation, kinds: Sequence[AgentKind], out: Path | None) -> None:
    baseline = None if len(kinds) < 2 else BASELINE if BASELINE in kinds else kinds[0]
    chosen = Selection(runs=[options.run], agents=kinds, split=options.split, baseline=baseline)
    results, costs = agent_results(context.store, chosen), agent_costs(context.store, chosen)
    groups = context.settings.suite.groups
    domains = domain_results(context.store, chosen) if groups else None
    if domains is not None:
        console.print(domain_grid(domains).titled(f"{suite}, {options.split}, by {groups}"))
    console.print(success_table(results).titled(f"{suite}, {options.split}"))
    console.print(cost_table(costs))
    if out is not None:
        result = {
            **made_by(context.settings),
            "table": results.model_dump(mode="json"),
            "costs": costs.model_dump(mode="json"),
            **({} if domains is None else {"domains": domains.model_dump(mode="json")}),
        }
        write_out(out, result)
