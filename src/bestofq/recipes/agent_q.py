"""Agent Q (arXiv 2408.07199, Algorithm 1): search each task's tree → preference pairs → DPO → the next round."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bestofq.agents.usage import merge_usage
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import DataError, InfraError, InputError
from bestofq.core.observation import Task
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.core.tree import SearchTree
from bestofq.learning.value import ValueModel
from bestofq.recipes.parts import Parts
from bestofq.recipes.searching import ranker, search_config
from bestofq.recipes.worlds import World
from bestofq.rollouts.episode import episode_seed
from bestofq.search.mcts import Search, state_after
from bestofq.search.pairs import node_pairs, rollouts
from bestofq.search.returning import Places, same_page
from bestofq.search.tree import GrowingTree
from bestofq.store.store import Store

log = logging.getLogger(__name__)


# ---- search


async def search_tasks(
    parts: Parts,
    world: World,
    store: Store,
    run: str,
    tasks: Sequence[Task],
    console: Console,
    *,
    values: ValueModel | None = None,
) -> list[SearchTree]:
    """A tree for each task, of the configured number of rollouts; trees that lie in the store are gone on with.

    Each is saved after every rollout. A task whose searches the machinery breaks keeps the tree it has.
    """
    room = asyncio.Semaphore(parts.settings.suite.at_once)
    config = parts.settings.agent_q.search
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        row = bar.add_task(f"{run}: rollouts", total=len(tasks) * config.iterations)

        async def one(task: Task) -> SearchTree | None:
            async with room:
                try:
                    return await _search(parts, world, store, run, task, values, lambda: bar.advance(row))
                except InfraError as error:
                    log.warning("the search for %s was cut: %s", task.id, error)
                    return store.trees.load(run, task.suite, task.id)

        trees = await asyncio.gather(*map(one, tasks))
    found = [tree for tree in trees if tree is not None]
    if len(found) < len(tasks):
        console.print(f"[yellow]{len(tasks) - len(found)} of {len(tasks)} tasks could not be searched[/]")
    return found


async def _search(
    parts: Parts,
    world: World,
    store: Store,
    run: str,
    task: Task,
    values: ValueModel | None,
    advance: Callable[[], None],
) -> SearchTree:
    seeded = task.model_copy(update={"seed": episode_seed(parts.settings.seed, task.id, 0)})
    config = search_config(parts, world)
    places = Places(world.make_env, seeded, limit=config.parallel)
    try:
        root = await places.start(())
        kept = store.trees.load(run, task.suite, task.id)
        if kept is not None and not same_page(kept.pages[kept.page[0]], root):
            log.warning("%s begins on another page than when its tree was begun: it is searched anew", task.id)
            kept = None
        tree = GrowingTree(seeded, root) if kept is None else GrowingTree.thawed(kept)
        state = State(task=seeded, observation=root)
        search = Search(
            tree,
            state,
            places,
            proposer=parts.proposer(),
            ranker=ranker(parts, values),
            config=config,
            irreversible=world.irreversible,
        )
        search.usage += kept.usage if kept is not None else ()
        for _ in range(tree.visits[0]):
            advance()
        while (left := config.iterations - tree.visits[0]) > 0 and tree.ending[0] == "open":
            before = tree.visits[0]
            await search.run(min(left, config.parallel))
            for _ in range(tree.visits[0] - before):
                advance()
            search.usage[:] = merge_usage(search.usage)
            await store.trees.save(run, tree.frozen(search.usage))
        return tree.frozen(search.usage)
    finally:
        await places.close()


# ---- what is learned from


def step_pairs(parts: Parts, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Pairs of the actions of one node (Eq. 5), by Q as blended in Eq. 10; each pair of texts once."""
    settings = parts.settings.agent_q
    seen: set[tuple[Turn, Turn]] = set()
    for tree in trees:
        for pair in node_pairs(tree, alpha=settings.alpha, threshold=settings.threshold):
            chosen, rejected = (_turn(parts, tree, child) for child in (pair.chosen, pair.rejected))
            if (chosen, rejected) not in seen:
                seen.add((chosen, rejected))
                yield PreferencePair(
                    chosen=(chosen,), rejected=(rejected,), margin=pair.margin, task=tree.task.id, node=pair.node
                )


def trajectory_pairs(parts: Parts, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Each success of a task against one of its failures (Eq. 6), in the order they were found."""
    for tree in trees:
        ends = list(rollouts(tree))
        won = [path for path, reward in ends if reward >= 1]
        lost = [path for path, reward in ends if reward < 1]
        if won and lost:
            for number, success in enumerate(won):
                failure = lost[number % len(lost)]
                chosen, rejected = (tuple(_turn(parts, tree, n) for n in path) for path in (success, failure))
                yield PreferencePair(chosen=chosen, rejected=rejected, margin=1.0, task=tree.task.id)


def successful_turns(parts: Parts, trees: Iterable[SearchTree]) -> Iterator[tuple[Turn, ...]]:
    """The turns of each successful rollout (Eq. 4: what RFT learns from)."""
    for tree in trees:
        for path, reward in rollouts(tree):
            if reward >= 1:
                yield tuple(_turn(parts, tree, node) for node in path)


def _turn(parts: Parts, tree: SearchTree, node: int) -> Turn:
    """The composite action that leads to `node`, with h_t as the model read it."""
    candidate = tree.candidate[node]
    assert candidate is not None
    if candidate.reply_ids is None or candidate.log_prob is None:
        raise DataError(
            f"the tree of {tree.task.id} holds an action without its tokens or likelihood: search with a local model "
            "in Agent Q's format (--set model.dialect=composite)"
        )
    above = tree.parent[node]
    taken: list[Candidate] = [c for n in tree.path(above)[1:] if (c := tree.candidate[n]) is not None]
    root = State(task=tree.task, observation=tree.pages[tree.page[0]])
    state = state_after(root, taken, tree.pages[tree.page[above]])
    prompt = tuple(parts.model.encode(parts.dialect.prompt(state)))
    return Turn(prompt_ids=prompt, reply_ids=candidate.reply_ids, log_prob=candidate.log_prob)


def need_pairs(pairs: Sequence[PreferencePair], trees: int) -> None:
    """InputError where the trees hold nothing to learn from."""
    if not pairs:
        raise InputError(
            f"{trees} search trees hold no pair of explored actions that differ enough: search more rollouts a task "
            "(--set agent_q.search.iterations=…), or lower agent_q.threshold"
        )
