"""What a run needs, made once: its settings' models, its suite while that is open, its store."""

import fnmatch
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from bestofq.build.agents import check_pictures
from bestofq.build.models import Models
from bestofq.build.open_suite import OpenSuite, seems_irreversible
from bestofq.build.settings import BestOfQSettings
from bestofq.core.errors import InputError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import KnowsIrreversible, Suite
from bestofq.envs.suites import make_suite
from bestofq.store.store import Store


@dataclass(frozen=True)
class RunContext:
    """What every recipe needs."""

    models: Models
    suite: OpenSuite
    store: Store
    console: Console

    @property
    def settings(self) -> BestOfQSettings:
        return self.models.settings

    def replaced(self, settings: BestOfQSettings) -> "RunContext":
        """The same suite and store with the models of other settings."""
        return replace(self, models=self.models.replaced(settings))

    def playing(self, model: Path) -> "RunContext":
        """The same suite and store with another local model."""
        return replace(self, models=self.models.playing(model))


@asynccontextmanager
async def open_suite(models: Models, suite: Suite | None = None) -> AsyncIterator[OpenSuite]:
    """The settings' suite, open until the context ends; then the models' connections are closed too. `suite`: the same,
    where it is made already.

    ConfigError where its pictures are needed and not taken.
    """
    chosen = models.settings.suite
    suite = suite or make_suite(chosen)

    async def tasks(split: Split, limit: int | None) -> Sequence[Task]:
        return await chosen_tasks(suite, chosen.only, split, limit)

    try:
        check_pictures(models.settings, chosen.in_browser and chosen.screenshots)
        async with suite.open() as make_env:
            yield OpenSuite(
                make_env,
                tasks,
                step_limit_of(models.settings, suite),
                suite.judge or (models.judge if suite.needs_judge else None),
                suite.sandboxed,
                suite.irreversible if isinstance(suite, KnowsIrreversible) else seems_irreversible,
            )
    finally:
        await models.close()


def step_limit_of(settings: BestOfQSettings, suite: Suite | None = None) -> int:
    """Steps an episode may take: as set, else the suite's own."""
    return settings.suite.step_limit or (suite or make_suite(settings.suite)).step_limit


async def chosen_tasks(suite: Suite, only: str, split: Split, limit: int | None) -> Sequence[Task]:
    """The first of a split's tasks whose id, or its part before `/`, matches one of the globs. InputError when none
    does."""
    tasks = await suite.tasks(split)
    globs = [glob.strip() for glob in only.split(",")]
    found = [
        task
        for task in tasks
        if any(fnmatch.fnmatch(name, glob) for name in (task.id, task.id.partition("/")[0]) for glob in globs)
    ]
    if not found:
        some = ", ".join(task.id for task in tasks[:3])
        raise InputError(f"no task of {suite.name} has an id like {only!r}; there are {len(tasks)}, such as {some}")
    return found[:limit]
