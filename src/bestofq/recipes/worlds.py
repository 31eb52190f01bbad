"""Opens the world that the settings name: the text shop, or the shop's site visited by Chromium."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bestofq.browser.browser import Browser
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, Judge
from bestofq.envs.webshop.site import serve
from bestofq.envs.webshop.text import TextEnv
from bestofq.envs.webshop.web import WebShopEnv
from bestofq.recipes.settings import Parts

MakeEnv = Callable[[], Awaitable[Env]]
Tasks = Callable[[Split, int | None], Awaitable[list[Task]]]
"""(split, how many at most) → the first of its tasks, in an order that makes them a fair sample."""


@dataclass(frozen=True)
class World:
    """Where episodes are played."""

    make_env: MakeEnv
    tasks: Tasks
    judge: Judge | None = None  # where the environment has no reward of its own


@asynccontextmanager
async def open_world(parts: Parts) -> AsyncIterator[World]:
    """A world, good until the context ends; then the model's connections are closed too."""
    try:
        async with _worlds[parts.settings.suite.env](parts) as world:
            yield world
    finally:
        await parts.close()


@asynccontextmanager
async def _text(parts: Parts) -> AsyncIterator[World]:
    async def make_env() -> Env:
        return TextEnv(parts.suite)

    yield World(make_env, _goods(parts))


@asynccontextmanager
async def _browser(parts: Parts) -> AsyncIterator[World]:
    async with serve(parts.suite) as site, Browser.launch() as browser:

        async def make_env() -> Env:
            return WebShopEnv(site, browser, screenshots=parts.settings.suite.screenshots)

        yield World(make_env, _goods(parts))


def _goods(parts: Parts) -> Tasks:
    async def tasks(split: Split, limit: int | None) -> list[Task]:
        return parts.suite.tasks(split, limit)

    return tasks


_worlds = {"text": _text, "browser": _browser}
