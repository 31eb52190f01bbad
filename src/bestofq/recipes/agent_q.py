"""Agent Q (arXiv 2408.07199, Algorithm 1): search each task's tree → preference pairs → DPO → the next round."""

from collections.abc import Sequence
from pathlib import Path

from bestofq.config.context import OpenSuite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import InputError
from bestofq.core.observation import Task
from bestofq.core.preferences import PreferencePair
from bestofq.core.tree import SearchTree
from bestofq.core.words import count_of
from bestofq.learning.resuming import has_begun
from bestofq.recipes.collect import begin
from bestofq.recipes.policy_training import check_policy, need_pairs, step_pairs, tune
from bestofq.recipes.tree_search import search_tasks
from bestofq.rollouts.console import console
from bestofq.store.store import Store

SEARCH_RUN = "search"


async def agent_q(models: Models, suite: OpenSuite, store: Store, out: Path, rounds: int = 1) -> Models:
    """Run N `rounds` of Algorithm 1 and return the models with the last policy.

    What an earlier call finished is kept. Once a round's policy has begun to learn, nothing more is searched for it.
    Raises as `check_policy` and `training_tasks`.
    """
    check_policy(models)
    replayed: list[PreferencePair] = []  # of earlier rounds, with the likelihoods they were drawn with (3.2.2)
    for number in range(1, rounds + 1):
        folder = out / f"policy-{number}"
        trees = await grow_training_trees(
            models, suite, store, round_run(number), part=number - 1, of=rounds, grown=has_begun(folder)
        )
        pairs = list(step_pairs(models, trees))
        need_pairs(pairs, len(trees))
        folder = tune(models, [*replayed, *pairs], folder)
        console.print(
            f"round {number} of {rounds}: {count_of(len(pairs), 'pair')} of {count_of(len(trees), 'tree')}"
            f"{f' and {len(replayed):,} of earlier rounds' if replayed else ''}; the policy: {folder}"
        )
        replayed += pairs
        models = models.with_model(folder)
    return models


async def grow_training_trees(
    models: Models, suite: OpenSuite, store: Store, run: str, *, part: int, of: int = 1, grown: bool = False
) -> list[SearchTree]:
    """Return the trees of the `part`-th B training tasks, counted from 0 (Algorithm 1's inner loop).

    `grown`: take those in the store, if any. InputError before any search if there are too few tasks for `of` models.
    """
    size = models.settings.agent_q.tasks
    tasks = await training_tasks(models.settings, suite, max(part + 1, of))
    await begin(models, suite, store, run, "train")
    wanted, trees = tasks[part * size : (part + 1) * size], store.trees
    stored = [tree for task in wanted if grown and (tree := trees.load(run, task.suite, task.id)) is not None]
    return stored or await search_tasks(models, suite, store, run, wanted)


async def training_tasks(settings: BestOfQSettings, suite: OpenSuite, count: int) -> Sequence[Task]:
    """Return the tasks of the first `count` models, B each. InputError if the training split has fewer."""
    size = settings.agent_q.tasks
    tasks = await suite.tasks("train", count * size)
    if len(tasks) < count * size:
        raise InputError(
            f"{count} × {size} training tasks are to be searched (rounds, or searches of the training seeds, × "
            f"agent_q.tasks), none twice, but {settings.suite.name} has {len(tasks)}: "
            f"set agent_q.tasks to {max(1, len(tasks) // count)} or less, or have fewer rounds or seeds"
        )
    return tasks


def round_run(number: int) -> str:
    return f"{SEARCH_RUN}-{number}"
