"""Agent Q's search (5.1): a tree of rollouts for each task to learn from, or before each step of an agent (6.2)."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.critics import FeedbackScorer
from bestofq.agents.scorers.learned import Values
from bestofq.agents.selectors import GreedySelector
from bestofq.config.agents import make_localizer, make_picker, make_proposer, make_q_scorer
from bestofq.config.context import OpenSuite
from bestofq.config.models import Models
from bestofq.core.concurrency import work_off
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, InfraError, SupersededError
from bestofq.core.observation import Task
from bestofq.core.protocols import Scorer
from bestofq.core.repeating import same_page
from bestofq.core.seeds import episode_seed
from bestofq.core.tree import SearchTree
from bestofq.core.usage import merge_usage
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.rollouts.runner import POLL_SECONDS
from bestofq.search.backtracking import Backtracker
from bestofq.search.mcts import Search
from bestofq.search.tree import MutableTree
from bestofq.search.tree_scorer import FoundProposer, TreeScorer
from bestofq.store.store import Store

log = logging.getLogger(__name__)


async def search_tasks(
    models: Models, suite: OpenSuite, store: Store, run: str, tasks: Sequence[Task], values: Values | None = None
) -> list[SearchTree]:
    """Return a tree for each task, saved after every rollout. Stored trees get the rollouts that they lack.

    A task keeps the tree that it has if the machinery breaks its searches. Any other error ends all searches.
    """
    settings = models.settings
    grown: list[SearchTree] = []
    todo = deque(tasks)
    with bar() as shown:
        row = shown.add_task(f"{run}: rollouts", total=len(tasks) * settings.agent_q.search.iterations)

        async def search(task: Task) -> None:
            try:
                grown.append(await _search(models, suite, store, run, values, task, lambda: shown.advance(row)))
            except InfraError as error:
                log.warning("the search for %s was cut: %s", task.id, error)
                if (tree := store.trees.load(run, task.suite, task.id)) is not None:
                    grown.append(tree)
            except SupersededError as error:
                log.info("%s is waited for: %s", task.id, error)
                await asyncio.sleep(POLL_SECONDS)
                todo.append(task)

        await work_off(todo, search, settings.suite.at_once)
    if len(grown) < len(tasks):
        console.print(f"[yellow]{len(tasks) - len(grown)} of {len(tasks)} tasks could not be searched[/]")
    order = {(task.suite, task.id): index for index, task in enumerate(tasks)}
    return sorted(grown, key=lambda tree: order[tree.task.suite, tree.task.id])


async def _search(
    models: Models,
    suite: OpenSuite,
    store: Store,
    run: str,
    values: Values | None,
    task: Task,
    on_rollout: Callable[[], None],
) -> SearchTree:
    trees, config = store.trees, models.settings.agent_q.search
    backtracker = Backtracker(suite.make_env, task, config, suite.irreversible)
    replies = f"replies {run} {task.suite} {task.id}"  # of the rollout under way
    async with trees.grow_tree(run, task) as kept, aclosing(backtracker):
        root = await backtracker.start()
        if kept is not None and not same_page(kept.pages[kept.page[0]], root):
            log.warning("%s begins on another page than when its tree was begun: it is searched anew", task.id)
            kept = None
        tree = MutableTree(task, root) if kept is None else MutableTree.from_tree(kept)
        seed = episode_seed(models.settings.seed, run, "search", task, 0)
        state = State(task=task, observation=root, seed=seed)
        search = Search(
            tree,
            state,
            backtracker,
            proposer=make_proposer(models),
            ranker=ranker(models, values),
            judge=suite.judge,
            localizer=make_localizer(models),
            depth=suite.step_limit,
            keep=partial(store.keep_note, replies),
            kept=store.note(replies) or "[]",
        )
        if kept is not None:
            search.usage += kept.usage
        for _ in range(tree.visits[0]):
            on_rollout()

        async def keep(_: float) -> None:
            nonlocal kept
            on_rollout()
            search.usage[:] = merge_usage(search.usage)
            kept = tree.to_tree(search.usage)
            await trees.save(run, kept)
            await store.keep_note(replies, None)

        await search.run(config.iterations - tree.visits[0], keep)
        return kept or tree.to_tree(search.usage)


def ranker(models: Models, values: Values | None) -> Scorer | None:
    """Who gives Q̂: the model itself (5.1.1), a learned Q (ConfigError without one), or nobody."""
    match models.settings.agent_q.feedback:
        case "model":
            return FeedbackScorer(make_picker(models))
        case "q":
            if values is None:
                raise ConfigError("agent_q.feedback=q ranks by a Q-function: give --q a folder made by `bestofq train`")
            return make_q_scorer(models, values)
        case "none":
            return None


@asynccontextmanager
async def searching_agent(models: Models, suite: OpenSuite, values: Values | None) -> AsyncIterator[Agent]:
    """An agent whose scorer is a search; its environments are closed when the context ends."""
    config = models.settings.agent_q.search
    proposer, localizer = make_proposer(models), make_localizer(models)
    search = partial(
        Search,
        proposer=proposer,
        ranker=ranker(models, values),
        judge=suite.judge,
        localizer=localizer,
        depth=suite.step_limit,
    )
    scorer = TreeScorer(suite.make_env, search, config, suite.irreversible)
    async with aclosing(scorer):
        yield Agent(
            name="mcts",
            proposer=FoundProposer(scorer, proposer),
            scorer=scorer,
            selector=GreedySelector(),
            localizer=localizer,
            n_candidates=config.candidates,
        )
