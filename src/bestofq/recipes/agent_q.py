"""Agent Q (arXiv 2408.07199, Algorithm 1): search each task's tree → preference pairs → DPO → the next round."""

import asyncio
import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bestofq.build.agents import dialect_of, make_proposer
from bestofq.build.context import RunContext
from bestofq.build.models import Models
from bestofq.build.open_suite import OpenSuite
from bestofq.build.settings import BestOfQSettings
from bestofq.core.concurrency import run_all
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import ConfigError, DataError, InfraError, InputError
from bestofq.core.extras import extra
from bestofq.core.observation import Task
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.core.seeds import episode_seed
from bestofq.core.tree import SearchTree
from bestofq.core.usage import merge_usage
from bestofq.learning.distributed import group_left, is_first_process
from bestofq.learning.objectives import PairMeans, TurnMeans
from bestofq.learning.tuning import TuningProgress, train_on_preferences, train_on_successes
from bestofq.learning.value import ValueModel
from bestofq.models.local import SHIPPED, LocalModel
from bestofq.recipes.collect import begin
from bestofq.recipes.mcts_agent import ranker, search_config
from bestofq.recipes.progress import bar
from bestofq.recipes.run_config import check_searched
from bestofq.search.backtracking import EnvPool, same_page
from bestofq.search.mcts import Search, state_after
from bestofq.search.pairs import node_pairs, rollouts
from bestofq.search.tree import MutableTree
from bestofq.store.pairs import PairSource
from bestofq.store.store import Store

log = logging.getLogger(__name__)

SEARCH_RUN = "search"


async def agent_q(context: RunContext, out: Path) -> Models:
    """Algorithm 1: rounds of search, pairs, DPO; the last policy. What an earlier call finished is not done again.

    Raises what `check` and `training_tasks` do, before the first search.
    """
    settings, console = context.settings.agent_q, context.console
    check(context.models)
    buffer: deque[list[PreferencePair]] = deque(maxlen=None if settings.replay is None else settings.replay + 1)
    for number in range(1, settings.rounds + 1):
        trees = await search_training(context, round_run(number), part=number - 1, of=settings.rounds)
        buffer.append(list(step_pairs(context.models, trees)))
        need_pairs(buffer[-1], len(trees))
        replayed = [pair for earlier in list(buffer)[:-1] for pair in earlier]  # with their own likelihoods (3.2.2)
        folder = tune(context.models, [*replayed, *buffer[-1]], out / f"policy-{number}", console)
        console.print(
            f"round {number} of {settings.rounds}: {len(buffer[-1]):,} pairs of {len(trees)} trees"
            f"{f' and {len(replayed):,} of earlier rounds' if replayed else ''}; the policy: {folder}"
        )
        context = context.playing(folder)
    return context.models


def check(models: Models) -> None:
    """Refuses what Algorithm 1 cannot do, before the minutes that a search takes.

    ConfigError where nodes are to be ranked by a Q-function: it reads one model's embeddings, and each round makes
    another model; or where the model's tokens are not kept. SetupError without the extra that DPO needs, or the model.
    """
    if models.settings.chat is not None or models.settings.model.dialect != "composite":
        raise ConfigError(
            "Agent Q learns from the tokens of composite actions: give a local model that writes them, such as "
            "--model pocket-agentq --set model.dialect=composite, and no endpoint"
        )
    if models.settings.agent_q.feedback == "q":
        raise ConfigError(
            "agent_q.feedback=q ranks by a Q-function of one model, and each round makes another: "
            "choose agent_q.feedback=model, or go step by step (bestofq search, pairs, tune)"
        )
    extra("accelerate")
    _ = models.local.revision


def round_run(number: int) -> str:
    """The run of a round's searches; rounds count from 1."""
    return f"{SEARCH_RUN}-{number}"


# ---- search


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
    context: RunContext, run: str, tasks: Sequence[Task], values: ValueModel | None = None
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
    context: RunContext, run: str, task: Task, values: ValueModel | None, advance: Callable[[], None]
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


# ---- what is learned from


def searched_trees(models: Models, store: Store, run: str) -> list[SearchTree]:
    """The trees of a run. InputError where there are none, DataError where another model or prompt grew them."""
    for record in store.runs():
        if record.name == run:
            check_searched(models, record)
    trees = list(store.trees.all(run))
    if not trees:
        raise InputError(f"the store holds no search trees of the run {run!r}: grow some by `bestofq search`")
    return trees


def step_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Pairs of the actions of one node (Eq. 5), by Q as blended in Eq. 10; each pair of texts once."""
    settings = models.settings.agent_q
    seen: set[tuple[Turn, Turn]] = set()
    for tree in trees:
        for pair in node_pairs(tree, alpha=settings.alpha, threshold=settings.threshold):
            chosen, rejected = (_turn(models, tree, child) for child in (pair.chosen, pair.rejected))
            if (chosen, rejected) not in seen:
                seen.add((chosen, rejected))
                yield PreferencePair(
                    chosen=(chosen,), rejected=(rejected,), margin=pair.margin, task=tree.task.id, node=pair.node
                )


def trajectory_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Each success of a task against one of its failures (Eq. 6), in the order they were found."""
    for tree in trees:
        ends = list(rollouts(tree))
        won = [path for path, reward in ends if reward >= 1]
        lost = [path for path, reward in ends if reward < 1]
        if won and lost:
            for number, success in enumerate(won):
                failure = lost[number % len(lost)]
                chosen, rejected = (tuple(_turn(models, tree, n) for n in path) for path in (success, failure))
                yield PreferencePair(chosen=chosen, rejected=rejected, margin=1.0, task=tree.task.id)


def successful_turns(models: Models, trees: Iterable[SearchTree]) -> Iterator[tuple[Turn, ...]]:
    """The turns of each successful rollout (Eq. 4: what RFT learns from)."""
    for tree in trees:
        for path, reward in rollouts(tree):
            if reward >= 1:
                yield tuple(_turn(models, tree, node) for node in path)


def _turn(models: Models, tree: SearchTree, node: int) -> Turn:
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
    prompt = tuple(models.local.encode(dialect_of(models.settings).prompt(state)))
    return Turn(prompt_ids=prompt, reply_ids=candidate.reply_ids, log_prob=candidate.log_prob)


def source(models: Models) -> PairSource:
    """What drew the turns, and what can learn from them."""
    tokens = json.dumps(models.local.tokenizer.get_vocab(), sort_keys=True)
    return PairSource(
        model=models.local.name,
        revision=models.local.revision,
        prompt=models.prompts,
        tokens=hashlib.sha256(tokens.encode()).hexdigest()[:16],
    )


# ---- learning


def tune(models: Models, pairs: Sequence[PreferencePair], out: Path, console: Console) -> Path:
    """DPO (Eq. 5 or 6) from the model that drew the pairs, or the last of them; the folder of the tuned one. On all
    processes launched."""
    config = models.settings.agent_q.dpo
    with _bar("DPO", console) as show:

        def report(row: TuningProgress[PairMeans]) -> None:
            show(row.step, row.steps, f"loss {row.means.loss:.3f}, {100 * row.means.accuracy:.0f} % right way round")

        with group_left():
            folder = train_on_preferences(_weights(models, config.lora is not None), pairs, config, report, out=out)
    return _with_tokenizer(models, folder)


def reinforce(models: Models, trees: Iterable[SearchTree], out: Path, console: Console) -> Path:
    """RFT (Eq. 4) on the successful rollouts of the trees; the folder of the tuned model. On all processes launched."""
    config = models.settings.agent_q.rft
    turns = [turn for turns in successful_turns(models, trees) for turn in turns]
    with _bar("RFT", console) as show:

        def report(row: TuningProgress[TurnMeans]) -> None:
            show(row.step, row.steps, f"loss {row.means.loss:.3f}")

        with group_left():
            folder = train_on_successes(_weights(models, config.lora is not None), turns, config, report, out=out)
    return _with_tokenizer(models, folder)


def _with_tokenizer(models: Models, folder: Path) -> Path:
    if is_first_process():
        models.local.tokenizer.save_pretrained(folder)
    return folder


def _weights(models: Models, adapters: bool) -> Any:
    """A copy of the policy's weights to train: in float32 unless only adapters are."""
    chosen = models.settings.model
    path = SHIPPED.get(chosen.path, chosen.path)
    return LocalModel.load(path, device=chosen.device, precision=chosen.precision if adapters else "float32").model


@contextmanager
def _bar(label: str, console: Console) -> Iterator[Callable[[int, int, str], None]]:
    """A bar whose function takes step, steps and what to say."""
    with bar(console) as shown:
        row = shown.add_task(label, total=None)

        def show(step: int, steps: int, text: str) -> None:
            shown.update(row, completed=step, total=steps, description=f"{label}: {text}")

        yield show


def need_pairs(pairs: Sequence[PreferencePair], trees: int) -> None:
    """InputError where the trees hold nothing to learn from."""
    if not pairs:
        raise InputError(
            f"{trees} search trees hold no pair of explored actions that differ enough: search more rollouts a task "
            "(--set agent_q.search.iterations=…), or lower agent_q.threshold"
        )
