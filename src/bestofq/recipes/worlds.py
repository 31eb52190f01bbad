"""Opens the world that the settings name: the text shop, or the shop's site visited by Chromium."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bestofq.browser.browser import Browser
from bestofq.core.protocols import Env
from bestofq.envs.webshop.site import serve
from bestofq.envs.webshop.text import TextEnv
from bestofq.envs.webshop.web import WebShopEnv
from bestofq.recipes.settings import Parts

MakeEnv = Callable[[], Awaitable[Env]]


@asynccontextmanager
async def open_world(parts: Parts) -> AsyncIterator[MakeEnv]:
    """A factory of environments, good until the context ends; then the model's connections are closed too."""
    try:
        async with _worlds[parts.settings.suite.env](parts) as make_env:
            yield make_env
    finally:
        await parts.close()


@asynccontextmanager
async def _text(parts: Parts) -> AsyncIterator[MakeEnv]:
    async def make_env() -> Env:
        return TextEnv(parts.suite)

    yield make_env


@asynccontextmanager
async def _browser(parts: Parts) -> AsyncIterator[MakeEnv]:
    async with serve(parts.suite) as site, Browser.launch() as browser:

        async def make_env() -> Env:
            return WebShopEnv(site, browser, screenshots=parts.settings.suite.screenshots)

        yield make_env


_worlds = {"text": _text, "browser": _browser}
