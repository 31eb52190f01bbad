"""`bestofq agent-q` and `bestofq search`: trees of tasks, and the policies that learn from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from bestofq.agents.scorers.learned import Values
from bestofq.cli.options import CommonOptions, console
from bestofq.cli.settings import hosts_of, store_at, store_of
from bestofq.cli.writing import print_spending
from bestofq.config.context import RunContext, open_suite
from bestofq.config.models import Models
from bestofq.core.concurrency import run_interruptible
from bestofq.core.observation import Split
from bestofq.core.tree import SearchTree, Way
from bestofq.recipes import agent_q as recipe
from bestofq.recipes.collect import begin
from bestofq.recipes.tree_search import search_tasks
from bestofq.reports.searches import SearchRow, search_row, search_rows, search_table
from bestofq.store.location import Location

SEARCHED = 100  # tasks, unless --tasks says how many


def run_agent_q(models: Models, store: Location, out: Path, console: Console) -> Path:
    """The rounds, and a table of their searches; the folder of the last policy. No folder is made where it refuses."""
    chosen = models.settings.agent_q
    runs = [recipe.round_run(number) for number in range(1, chosen.rounds + 1)]

    async def work() -> tuple[Models, list[SearchRow]]:
        recipe.check(models)
        async with open_suite(models) as suite:
            await recipe.training_tasks(models.settings, suite, chosen.rounds)
            with store_at(store) as opened:
                policy = await recipe.agent_q(RunContext(models, suite, opened, console), out)
                return policy, search_rows(opened, runs, alpha=chosen.alpha, threshold=chosen.threshold)

    policy, searches = run_interruptible(work())
    console.print(search_table(searches).with_title(f"{models.settings.suite.name}, train"))
    print_spending(used for row in searches for used in row.usage)
    folder = Path(policy.settings.model.path)
    console.print(f"the last policy: {folder}; what it reaches: bestofq eval --agents prompting --model {folder} …")
    return folder


def search_and_show(
    models: Models, given: CommonOptions, run: str, split: Split, tasks: int, values: Values | None
) -> None:
    """Grow a tree for each of the first tasks of a split; then what the searches found, and what they cost."""

    async def work() -> list[SearchTree]:
        async with open_suite(models) as suite:
            await models.check_token_ids()
            if settings.chat and settings.model.dialect == "composite" and not settings.chat.token_ids:
                console.print("no policy can be tuned on these trees: chat.token_ids=true keeps the tokens of a server")
            chosen = await suite.tasks(split, tasks)
            with store_at(store) as opened, hosts_of(given.cluster, models, store) as hosts:
                context = RunContext(models, suite, opened, console, hosts)
                await begin(context, run, split, values=values)
                return await search_tasks(context, run, chosen, values)

    settings, store = models.settings, store_of(given, models)
    trees = run_interruptible(work())
    row = search_row(run, trees, alpha=settings.agent_q.alpha, threshold=settings.agent_q.threshold)
    console.print(search_table([row]).with_title(f"{models.settings.suite.name}, {split}"))
    console.print(_ways_back(trees))
    print_spending(row.usage)


def _ways_back(trees: Sequence[SearchTree]) -> str:
    """How often a search came back to a page in each way, and what that took on average."""
    ways = []
    for way in get_args(Way):
        back = [one for tree in trees for one in tree.back if one.way == way]
        count = sum(one.count for one in back)
        ways.append(f"{way} {count:,} × {1000 * sum(one.seconds for one in back) / max(1, count):.1f} ms")
    return f"back to a page: {', '.join(ways)}"
