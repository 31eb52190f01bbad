"""Grow a search tree for each task, 100 tasks by default: MCTS with feedback. Resumable."""

from bestofq.cli.options import CommonOptions, Q, SearchRun, Split, Tasks, takes
from bestofq.cli.planning import plan_searches
from bestofq.cli.shared import limit_of, models_of, named_only, store_at, store_of, with_values
from bestofq.cli.writing import print_usage
from bestofq.config.context import open_suite
from bestofq.core.concurrency import run_interruptible
from bestofq.core.tree import SearchTree
from bestofq.recipes.collect import begin
from bestofq.recipes.tree_search import search_tasks
from bestofq.reports.searches import search_row, search_table
from bestofq.rollouts.console import console

TASKS = 100


@takes()
def search(
    options: CommonOptions, run: SearchRun = "search", split: Split = "train", tasks: Tasks = None, q: Q = None
) -> None:
    models, values = with_values(models_of(options, *named_only(tasks)), q, ["mcts"])
    settings, store = models.settings, store_of(options, models)
    number = TASKS if tasks is None else limit_of(tasks, settings.suite)
    if options.dry_run:
        plan_searches(models, store, [run], split, number)
        return

    async def work() -> list[SearchTree]:
        async with open_suite(models) as suite:
            await models.check_token_ids()
            chat = settings.endpoint_of("chat")
            if chat and settings.model.dialect == "composite" and not chat.token_ids:
                way = "--set endpoints.chat.token_ids=true"
                console.print(f"no policy can be tuned on these trees: {way} keeps the tokens of a server")
            chosen = await suite.tasks(split, number)
            with store_at(store) as opened:
                await begin(models, suite, opened, run, split, values=values)
                return await search_tasks(models, suite, opened, run, chosen, values)

    trees = run_interruptible(work())
    row = search_row(run, trees, alpha=settings.agent_q.alpha, threshold=settings.agent_q.threshold)
    console.print(search_table([row]).with_title(f"{settings.suite.name}, {split}"))
    print_usage(row.usage)
