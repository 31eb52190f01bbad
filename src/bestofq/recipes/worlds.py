"""Opens the world that the settings name: the shop or the booking site (as text or in the browser), MiniWoB++'s pages,
WebVoyager's web."""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.irreversible import irreversible
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Env, Judge
from bestofq.envs.booking.suite import Suite as Booking
from bestofq.envs.local_site.server import serve
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.local_site.text import TextEnv as BookingText
from bestofq.envs.local_site.web import LocalWebEnv
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.suite import VIEWPORT, MiniWob
from bestofq.envs.web import WebEnv
from bestofq.envs.webshop.suite import Suite as WebShop
from bestofq.envs.webvoyager.suite import WebVoyager
from bestofq.recipes.parts import Parts
from bestofq.recipes.settings import SuiteSettings

MakeEnv = Callable[[], Awaitable[Env]]
Tasks = Callable[[Split, int | None], Awaitable[list[Task]]]
"""(split, how many at most) → the first of its tasks, in an order that makes them a fair sample."""


def _seems_irreversible(observation: Observation, action: Action) -> bool:
    """Guessed from what the page says, where the suite does not know."""
    return irreversible(action, observation) is not None


@dataclass(frozen=True)
class World:
    """Where episodes are played."""

    make_env: MakeEnv
    tasks: Tasks
    judge: Judge | None = None  # where the environment has no reward of its own
    sandboxed: bool = True  # irreversible actions harm nobody: the site is ours
    irreversible: Callable[[Observation, Action], bool] = _seems_irreversible  # what search must not carry out


@asynccontextmanager
async def open_world(parts: Parts) -> AsyncIterator[World]:
    """A world, good until the context ends; then the models' connections are closed too.

    ConfigError where its pictures are needed and not taken.
    """
    suite = parts.settings.suite
    try:
        parts.check_pictures(suite.in_browser and suite.pictured)
        async with (_browsed if suite.in_browser else _text)(parts) as world:
            yield world
    finally:
        await parts.close()


@asynccontextmanager
async def _text(parts: Parts) -> AsyncIterator[World]:
    booking = parts.settings.suite.name == "booking"

    async def make_env() -> Env:
        return BookingText(parts.booking) if booking else TextEnv(parts.suite)

    yield _own(parts, parts.booking if booking else parts.suite, make_env)


@asynccontextmanager
async def _browsed(parts: Parts) -> AsyncIterator[World]:
    suite = parts.settings.suite
    viewport = VIEWPORT if suite.name == "miniwob" else None
    async with Browser.launch(viewport) as browser, _sites[suite.name](parts, browser) as world:
        yield world


@asynccontextmanager
async def _webshop(parts: Parts, browser: Browser) -> AsyncIterator[World]:
    async with serve(parts.suite) as site:

        async def make_env() -> Env:
            return LocalWebEnv(site, browser, screenshots=parts.settings.suite.pictured)

        yield _own(parts, parts.suite, make_env)


@asynccontextmanager
async def _booking(parts: Parts, browser: Browser) -> AsyncIterator[World]:
    async with serve(parts.booking) as site:

        async def make_env() -> Env:
            return LocalWebEnv(site, browser, screenshots=parts.settings.suite.pictured)

        yield _own(parts, parts.booking, make_env)


@asynccontextmanager
async def _miniwob(parts: Parts, browser: Browser) -> AsyncIterator[World]:
    chosen = parts.settings.suite
    async with MiniWob.open(chosen.data) as suite:

        async def make_env() -> Env:
            return MiniWobEnv(suite.root, browser, screenshots=chosen.pictured)

        async def tasks(split: Split, limit: int | None) -> list[Task]:
            found = await suite.tasks(browser, split, chosen.only, per_task=chosen.per_task, families=chosen.families)
            return found[:limit]

        yield World(make_env, tasks)


@asynccontextmanager
async def _webvoyager(parts: Parts, browser: Browser) -> AsyncIterator[World]:
    chosen = parts.settings.suite
    suite = webvoyager(chosen)

    async def make_env() -> Env:
        return WebEnv(browser, screenshots=chosen.pictured)

    async def tasks(split: Split, limit: int | None) -> list[Task]:
        return _only(chosen, suite.tasks(split))[:limit]

    yield World(make_env, tasks, parts.judge, sandboxed=False)


def webvoyager(chosen: SuiteSettings) -> WebVoyager:
    """The suite of the user's file. ConfigError without one, DataError when it cannot be read."""
    if chosen.data is None:
        raise ConfigError("WebVoyager's tasks come from a jsonl file of yours: name it with --data FILE")
    return WebVoyager.load(chosen.data, holdout=chosen.holdout, seed=chosen.seed, hosts=chosen.hosts)


def _own(parts: Parts, suite: WebShop | Booking, make_env: MakeEnv) -> World:
    """A site of ours, which knows what on it cannot be taken back."""

    async def tasks(split: Split, limit: int | None) -> list[Task]:
        chosen = parts.settings.suite
        return suite.tasks(split, limit) if chosen.only == "*" else _only(chosen, suite.tasks(split))[:limit]

    return World(make_env, tasks, irreversible=suite.irreversible)


def _only(chosen: SuiteSettings, tasks: list[Task]) -> list[Task]:
    """Those whose id matches one of the settings' globs. InputError when none does."""
    globs = [glob.strip() for glob in chosen.only.split(",")]
    found = [task for task in tasks if any(fnmatch.fnmatch(task.id, glob) for glob in globs)]
    if not found:
        raise InputError(
            f"no task of {chosen.name} has an id like {chosen.only!r}; there are {len(tasks)}, such as "
            f"{', '.join(task.id for task in tasks[:3])}"
        )
    return found


_sites = {"webshop": _webshop, "booking": _booking, "miniwob": _miniwob, "webvoyager": _webvoyager}
