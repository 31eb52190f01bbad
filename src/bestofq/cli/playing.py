"""`bestofq collect`, `improve` and `eval`: agents play the tasks of a suite, and tables of what came of it."""

from collections.abc import Awaitable, Callable

from bestofq.cli.options import CommonOptions, Evaluation, console
from bestofq.cli.planning import plan_episodes
from bestofq.cli.settings import (
    hosts_of,
    kind_of,
    limit_of,
    load_suite,
    models_of,
    named_only,
    store_at,
    store_of,
    with_values,
)
from bestofq.cli.writing import check_out, write_out
from bestofq.config.agents import proposer_name, shipped_q
from bestofq.config.context import RunContext, open_suite
from bestofq.config.models import Models
from bestofq.config.settings import AgentKind
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError
from bestofq.recipes.collect import AGENTS, compare
from bestofq.recipes.players import Play
from bestofq.recipes.provenance import made_by
from bestofq.reports.costs import Costs, agent_costs, cost_table
from bestofq.reports.domains import Domains, domain_grid, domain_results
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import SuccessReport, agent_results, success_table


def play_and_show(
    models: Models, given: CommonOptions, play: Callable[[RunContext], Awaitable[object]], played: Selection
) -> None:
    """Play the settings' suite and keep the episodes; then what those cost that were played."""
    named, folder = load_suite(models), store_of(given, models)

    async def work() -> Costs:
        async with open_suite(models, named) as suite:
            with store_at(folder) as store, hosts_of(given.cluster, models, folder) as hosts:
                await play(RunContext(models, suite, store, console, hosts))
                return agent_costs(store, played)

    console.print(cost_table(run_interruptible(work())))  # once all is closed: Ctrl-C finds nothing to stop


def evaluate_agents(wanted: Evaluation) -> None:
    """Play the tasks with each agent, and print and write the tables."""
    check_out(wanted.out)
    models = models_of(wanted, *named_only(wanted.tasks))
    limit, store = limit_of(wanted.tasks, models.settings.suite), store_of(wanted, models)
    given = None if wanted.agents is None else [kind_of(kind.strip()) for kind in wanted.agents.split(",")]
    kinds = _playable(models, wanted) if given is None else given
    models, values = with_values(models, wanted.q, kinds)
    if wanted.dry_run:
        plays = [Play(kind, wanted.runs, split=wanted.split, limit=limit, n=wanted.n) for kind in kinds]
        plan_episodes(models, store, [(wanted.run, play) for play in plays])
        return
    named = load_suite(models)

    async def work() -> tuple[SuccessReport, Costs, Domains | None, bool]:
        async with open_suite(models, named) as suite:
            if "prior" in kinds and not await models.gives_log_probs():
                sentence = f"{proposer_name(models.settings)} gives no log-probabilities, which the agent prior needs"
                if given is not None:
                    raise ConfigError(f"{sentence}: leave prior out of --agents")
                kinds.remove("prior")
                console.print(f"prior is left out: {sentence}.")
            with store_at(store) as opened, hosts_of(wanted.cluster, models, store) as hosts:
                context = RunContext(models, suite, opened, console, hosts)
                before = opened.summaries(run=wanted.run, status=None)
                await compare(
                    context,
                    wanted.run,
                    kinds,
                    values=values,
                    split=wanted.split,
                    tasks=limit,
                    runs=wanted.runs,
                    n=wanted.n,
                )
                same = before == opened.summaries(run=wanted.run, status=None)
                baseline = None if len(kinds) < 2 else BASELINE if BASELINE in kinds else kinds[0]
                chosen = Selection(runs=[wanted.run], agents=kinds, split=wanted.split, baseline=baseline)
                domains = domain_results(opened, chosen) if models.settings.suite.groups else None
                return agent_results(opened, chosen), agent_costs(opened, chosen), domains, same

    results, costs, domains, same = run_interruptible(work())
    if domains is not None:
        console.print(
            domain_grid(domains).with_title(f"{named.name}, {wanted.split}, by {models.settings.suite.groups}")
        )
    console.print(success_table(results).with_title(f"{named.name}, {wanted.split}"))
    console.print(cost_table(costs))
    if wanted.out is not None:
        found = {"table": results, "costs": costs, "domains": domains}
        tables = {name: one.model_dump(mode="json") for name, one in found.items() if one is not None}
        write_out(wanted.out, {**made_by(models.settings), **tables})
    if same:
        sentence = "All episodes were stored already, and nothing was played: after a change give another --run."
        console.print(sentence, style="yellow")


def _playable(models: Models, wanted: Evaluation) -> list[AgentKind]:
    """All agents; without a Q-function, those that need none."""
    if wanted.q or shipped_q(models.settings):
        return [*AGENTS]
    learned = [kind for kind in AGENTS if models.settings.reads_q(kind)]
    console.print(
        f"{' and '.join(learned)} are left out: no Q-function ships for {proposer_name(models.settings)} on "
        f"{models.settings.suite.name}, and --q gives none."
    )
    return [kind for kind in AGENTS if kind not in learned]
