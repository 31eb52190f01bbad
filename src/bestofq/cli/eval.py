"""Measure agents: success ± standard error, steps for success and cost of each (Tables 2 and 5 to 8). Resumable.

200 tasks by default; of WebVoyager all.
"""

from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, N, Place, Q, Split, Tasks, Text, takes
from bestofq.cli.planning import plan_episodes
from bestofq.cli.shared import kind_of, limit_of, models_of, named_only, store_at, store_of, with_values
from bestofq.cli.writing import check_out, write_out
from bestofq.config.agents import AGENTS, AgentKind, proposer_name, shipped_q
from bestofq.config.context import open_suite
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError
from bestofq.envs.suites import make_suite
from bestofq.recipes.collect import DEFAULT_AGENTS, Play, compare
from bestofq.recipes.identity import made_by
from bestofq.reports.costs import Costs, agent_costs, cost_table
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import Grouping, agent_results, domain_grid, domain_results, success_table
from bestofq.rollouts.console import console


@takes()
def evaluate(
    options: CommonOptions,
    agents: Annotated[
        Text, Option(help="Comma-separated. Default: prompting,random,picker,best-of-q,prior as far as they can play.")
    ] = None,
    q: Q = None,
    split: Split = "dev",
    tasks: Tasks = None,
    runs: Annotated[int, Option(min=1, help="Passes over the tasks.")] = 3,
    n: N = None,
    run: Annotated[str, Option(help="Name of the run.")] = "eval",
    out: Annotated[Place, Option(help="JSON file for the results.")] = None,
) -> None:
    check_out(out)
    models = models_of(options, *named_only(tasks))
    limit, store = limit_of(tasks, models.settings.suite), store_of(options, models)
    kinds = _playable(models.settings, q=bool(q)) if agents is None else [kind_of(k.strip()) for k in agents.split(",")]
    models, values = with_values(models, q, kinds)
    settings = models.settings
    if options.dry_run:
        plan_episodes(models, store, [(run, Play(kind, runs, split=split, limit=limit, n=n)) for kind in kinds])
        return
    named = make_suite(settings.suite)

    async def work() -> tuple[Grouping, Costs, Grouping | None, bool]:
        async with open_suite(models, named) as suite:
            if "prior" in kinds and not await models.gives_log_probs():
                sentence = f"{proposer_name(settings)} gives no log-probabilities, which the agent prior needs"
                if agents is not None:
                    raise ConfigError(f"{sentence}: leave prior out of --agents")
                kinds.remove("prior")
                console.print(f"prior is left out: {sentence}.")
            with store_at(store) as opened:
                before = opened.summaries(run=run, status=None)
                play = Play(repeats=runs, values=values, split=split, limit=limit, n=n)
                await compare(models, suite, opened, run, play, kinds)
                same = before == opened.summaries(run=run, status=None)
                baseline = None if len(kinds) < 2 else BASELINE if BASELINE in kinds else kinds[0]
                chosen = Selection(runs=[run], agents=kinds, split=split, baseline=baseline)
                domains = domain_results(opened, chosen) if settings.suite.groups else None
                return agent_results(opened, chosen), agent_costs(opened, chosen), domains, same

    results, costs, domains, same = run_interruptible(work())
    if domains is not None:
        console.print(domain_grid(domains).with_title(f"{named.name}, {split}, by {settings.suite.groups}"))
    console.print(success_table(results).with_title(f"{named.name}, {split}"))
    console.print(cost_table(costs))
    if out is not None:
        tables = {"table": results, "costs": costs, "domains": domains}
        made = {name: table.model_dump(mode="json") for name, table in tables.items() if table is not None}
        write_out(out, {**made_by(settings), **made})
    if same:
        sentence = "All episodes were stored already, and nothing was played: after a change give another --run."
        console.print(sentence, style="yellow")


def _playable(settings: BestOfQSettings, *, q: bool) -> list[AgentKind]:
    """All agents; without a Q-function, those that need none. An own proposer may give prior no log-probabilities."""
    if q or shipped_q(settings):
        return [kind for kind in DEFAULT_AGENTS if kind != "prior" or settings.proposer is None]
    learned = [kind for kind in DEFAULT_AGENTS if AGENTS[kind].reads_q(settings)]
    console.print(
        f"{' and '.join(learned)} are left out: no Q-function ships for {proposer_name(settings)} on "
        f"{settings.suite.name}, and --q gives none."
    )
    return [kind for kind in DEFAULT_AGENTS if kind not in learned]
