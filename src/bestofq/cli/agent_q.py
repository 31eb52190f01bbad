"""Agent Q's Algorithm 1: rounds of search, preference pairs, DPO. Resumable: run the same command again.

Each round searches --tasks further training tasks (agent_q.tasks) with the policy of the round before. The model
writes composite actions: --set model.dialect=composite.
"""

from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import CommonOptions, Place, Tasks, takes
from bestofq.cli.planning import plan_searches
from bestofq.cli.shared import models_of, store_at, store_of, training_tasks
from bestofq.cli.writing import check_folder, print_usage
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.core.concurrency import run_interruptible
from bestofq.recipes import agent_q as recipe
from bestofq.recipes.policy_training import check_policy
from bestofq.reports.searches import SearchRow, search_rows, search_table
from bestofq.rollouts.console import console
from bestofq.store.location import Location


@takes("suite", "model", "data", "config", "set_", "store", "dry_run")
def agent_q(
    options: CommonOptions,
    rounds: Annotated[int, Option(min=1, max=1000, help="Of search, pairs and DPO.")] = 1,
    tasks: Tasks = None,
    out: Annotated[Place, Option(help="Folder for the policies. Default: the store's.")] = None,
) -> None:
    check_folder(out)
    models = models_of(options, *training_tasks(tasks, "agent_q.tasks"))
    store, chosen = store_of(options, models), models.settings.agent_q
    if options.dry_run:
        runs = [recipe.round_run(number) for number in range(1, rounds + 1)]
        plan_searches(models, store, runs, "train", chosen.tasks)
    else:
        run_agent_q(models, store, out or store.folder, rounds)


def run_agent_q(models: Models, store: Location, out: Path, rounds: int = 1) -> Path:
    """Run the rounds, print a table of their searches, return the last policy's folder. A refused run makes none."""
    chosen = models.settings.agent_q
    runs = [recipe.round_run(number) for number in range(1, rounds + 1)]

    async def work() -> tuple[Models, list[SearchRow]]:
        check_policy(models)
        async with open_suite(models) as suite:
            await recipe.training_tasks(models.settings, suite, rounds)
            with store_at(store) as opened:
                policy = await recipe.agent_q(models, suite, opened, out, rounds)
                return policy, search_rows(opened, runs, alpha=chosen.alpha, threshold=chosen.threshold)

    policy, searches = run_interruptible(work())
    console.print(search_table(searches).with_title(f"{models.settings.suite.name}, train"))
    print_usage(used for row in searches for used in row.usage)
    folder = Path(policy.settings.model.path)
    console.print(f"the last policy: {folder}; what it reaches: bestofq eval --agents prompting --model {folder} …")
    return folder
