"""A suite while it is open: where the episodes of a run are played."""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bestofq.config.models import Models, check_pictures
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import InputError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import EnvFactory, Judge, KnowsIrreversible, Suite
from bestofq.core.repeating import Unsafe
from bestofq.envs.suites import make_suite
from bestofq.safety.irreversible import seems_irreversible


@dataclass(frozen=True)
class OpenSuite:
    """A suite while it is open: where episodes are played."""

    make_env: EnvFactory
    tasks: Callable[[Split, int | None], Awaitable[Sequence[Task]]]  # the first of a split, so many at most
    step_limit: int  # steps an episode may take
    judge: Judge | None = None  # where the environment has no reward of its own
    irreversible: Unsafe | None = None  # what nobody may try or repeat; None: a sandbox, where nothing is
    simulator: "OpenSuite | None" = None  # where an agent searches, with the same pages; None: here


@asynccontextmanager
async def open_suite(models: Models, suite: Suite | None = None) -> AsyncIterator[OpenSuite]:
    """The settings' suite (`suite`, where it is made already), open until the context ends; then the models'
    connections are closed too. ConfigError where its pictures are needed and not taken."""
    chosen = models.settings.suite
    suite = suite or make_suite(chosen)
    check_pictures(models.settings, chosen.in_browser and chosen.screenshots)
    async with aclosing(models), suite.open() as make_env:
        yield OpenSuite(
            make_env,
            partial(chosen_tasks, suite, chosen.only),
            step_limit_of(models.settings, suite),
            suite.judge or (models.judge if suite.needs_judge else None),
            irreversible_of(suite),
        )


def irreversible_of(suite: Suite) -> Unsafe | None:
    """Return what must not be tried or repeated there. None: a sandbox, where everything may be done."""
    if suite.sandboxed:
        return None
    return suite.irreversible if isinstance(suite, KnowsIrreversible) else seems_irreversible


def step_limit_of(settings: BestOfQSettings, suite: Suite | None = None) -> int:
    return settings.suite.step_limit or (suite or make_suite(settings.suite)).step_limit


async def chosen_tasks(suite: Suite, only: str, split: Split, limit: int | None) -> Sequence[Task]:
    """The first of a split's tasks whose id, or its part before `/`, matches a glob. InputError when none does."""
    tasks = await suite.tasks(split)
    chosen = tasks if only == "*" else [task for task in tasks if matches(only, task.id, task.id.partition("/")[0])]
    if not (found := chosen[:limit]):
        some = ", ".join(task.id for task in tasks[:3])
        raise InputError(f"no task of {suite.name} has an id like {only!r}; there are {len(tasks)}, such as {some}")
    return found


def matches(globs: str, *names: str) -> bool:
    """Whether one of the names matches one of the globs; commas between them."""
    return any(fnmatch.fnmatchcase(name, glob) for glob in map(str.strip, globs.split(",")) for name in names)
