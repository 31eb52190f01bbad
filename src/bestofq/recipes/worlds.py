"""Opens the suite that the settings name."""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bestofq.core.actions import Action
from bestofq.core.errors import InputError
from bestofq.core.irreversible import irreversible
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import EnvFactory, Judge, KnowsIrreversible
from bestofq.recipes.parts import Parts

Tasks = Callable[[Split, int | None], Awaitable[Sequence[Task]]]
"""(split, how many at most) → the first of its tasks, in an order that makes them a fair sample."""


def _seems_irreversible(observation: Observation, action: Action) -> bool:
    """Guessed from what the page says, where the suite does not know."""
    return irreversible(action, observation) is not None


@dataclass(frozen=True)
class World:
    """Where episodes are played."""

    make_env: EnvFactory
    tasks: Tasks
    judge: Judge | None = None  # where the environment has no reward of its own
    sandboxed: bool = True  # irreversible actions harm nobody: the site is ours
    irreversible: Callable[[Observation, Action], bool] = _seems_irreversible  # what search must not carry out


@asynccontextmanager
async def open_world(parts: Parts) -> AsyncIterator[World]:
    """A world, good until the context ends; then the models' connections are closed too.

    ConfigError where its pictures are needed and not taken.
    """
    chosen, suite = parts.settings.suite, parts.suite

    async def tasks(split: Split, limit: int | None) -> Sequence[Task]:
        return _only(suite.name, chosen.only, await suite.tasks(split))[:limit]

    try:
        parts.check_pictures(chosen.in_browser and chosen.screenshots)
        async with suite.open() as make_env:
            judge = suite.judge or (parts.judge if suite.needs_judge else None)
            known = suite.irreversible if isinstance(suite, KnowsIrreversible) else _seems_irreversible
            yield World(make_env, tasks, judge, suite.sandboxed, known)
    finally:
        await parts.close()


def _only(suite: str, only: str, tasks: Sequence[Task]) -> Sequence[Task]:
    """Those whose id, or its part before `/`, matches one of the globs. InputError when none does."""
    globs = [glob.strip() for glob in only.split(",")]
    found = [
        task
        for task in tasks
        if any(fnmatch.fnmatch(name, glob) for name in (task.id, task.id.partition("/")[0]) for glob in globs)
    ]
    if not found:
        some = ", ".join(task.id for task in tasks[:3])
        raise InputError(f"no task of {suite} has an id like {only!r}; there are {len(tasks)}, such as {some}")
    return found
