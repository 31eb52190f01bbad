"""The search of Agent Q's Algorithm 1: a tree of rollouts for each training task."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bestofq.agents.scorers.learned import Values
from bestofq.build.agents import make_proposer
from bestofq.build.context import RunContext
from bestofq.build.open_suite import OpenSuite
from bestofq.build.settings import BestOfQSettings
from bestofq.core.concurrency import run_all
from bestofq.core.decision import State
from bestofq.core.errors import InfraError, InputError
from bestofq.core.observation import Task
from bestofq.core.seeds import episode_seed
from bestofq.core.tree import SearchTree
from bestofq.core.usage import merge_usage
from bestofq.recipes.collect import begin
from bestofq.recipes.mcts_agent import ranker, search_config
from bestofq.rollouts.progress import bar
from bestofq.search.backtracking import EnvPool, same_page
from bestofq.search.mcts import Search
from bestofq.search.tree import MutableTree

log = logging.getLogger(__name__)


async def search_training(context: RunContext, run: str, *, part: int, of: int = 1) -> list[SearchTree]:
    """Trees of B training tasks, those after `part` times as many (Algorithm 1's inner loop).

    InputError, before any search, where there are not enough for this part, or for the `of` models there will be.
    """
    size = context.settings.agent_q.tasks
    tasks = await training_tasks(context.settings, context.suite, max(part + 1, of))
    await begin(context, run, "train")
    return await search_tasks(context, run, tasks[part * size : (part + 1) * size])


async def training_tasks(settings: BestOfQSettings, suite: OpenSuite, count: int) -> Sequence[Task]:
    """The tasks of the first `count` models, B each. InputError where the training split has fewer."""
    size = settings.agent_q.tasks
    tasks = await suite.tasks("train", count * size)
    if len(tasks) < count * size:
        raise InputError(
            f"{count} × {size} training tasks are to be searched (rounds, or searches of the training seeds, × "
            f"agent_q.tasks), none twice, but {settings.suite.name} has {len(tasks)}: "
            f"set agent_q.tasks to {max(1, len(tasks) // count)} or less, or have fewer rounds or seeds"
        )
    return tasks


async def search_tasks(
    context: RunContext, run: str, tasks: Sequence[Task], values: Values | None = None
) -> list[SearchTree]:
    """A tree for each task, of the configured number of rollouts; trees that lie in the store are gone on with.

    Each is saved after every rollout. A task whose searches the machinery breaks keeps the tree it has; any other error
    ends all searches before it is raised, and so does cancelling.
    """
    settings, store, console = context.settings, context.store, context.console
    room = asyncio.Semaphore(settings.suite.at_once)
    with bar(console) as shown:
        row = shown.add_task(f"{run}: rollouts", total=len(tasks) * settings.agent_q.search.iterations)

        async def one(task: Task) -> SearchTree | None:
            async with room:
                try:
                    return await _search(context, run, task, values, lambda: shown.advance(row))
                except InfraError as error:
                    log.warning("the search for %s was cut: %s", task.id, error)
                    return store.trees.load(run, task.suite, task.id)

        found = [tree for tree in await run_all(map(one, tasks)) if tree is not None]
    if len(found) < len(tasks):
        console.print(f"[yellow]{len(tasks) - len(found)} of {len(tasks)} tasks could not be searched[/]")
    return found


async def _search(
    context: RunContext, run: str, task: Task, values: Values | None, advance: Callable[[], None]
) -> SearchTree:
    models, suite, trees = context.models, context.suite, context.store.trees
    config = search_config(context.settings, suite)
    envs = EnvPool(suite.make_env, task, config, suite.irreversible)
    try:
        root = await envs.start()
        kept = trees.load(run, task.suite, task.id)
        if kept is not None and not same_page(kept.pages[kept.page[0]], root):
            log.warning("%s begins on another page than when its tree was begun: it is searched anew", task.id)
            kept = None
        tree = MutableTree(task, root) if kept is None else MutableTree.from_tree(kept)
        seed = episode_seed(context.settings.seed, run, "search", task, 0)
        state = State(task=task, observation=root, seed=seed)
        search = Search(
            tree,
            state,
            envs,
            proposer=make_proposer(models),
            ranker=ranker(models, values),
            config=config,
            judge=suite.judge,
        )
        if kept is not None:
            search.usage += kept.usage
            for before in kept.back:
                envs.costs.add(before.way, before.count, before.seconds)
        for _ in range(tree.visits[0]):
            advance()

        async def keep(_: float) -> None:
            advance()
            search.usage[:] = merge_usage(search.usage)
            await trees.save(run, tree.to_tree(search.usage, envs.costs.to_tuple()))

        await search.run(config.iterations - tree.visits[0], keep)
        return tree.to_tree(search.usage, envs.costs.to_tuple())
    finally:
        await envs.close()
