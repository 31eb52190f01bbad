"""Opens the world that the settings name: the text shop, or the shop's site visited by Chromium."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bestofq.core.protocols import Env
from bestofq.envs.webshop.text import TextEnv
from bestofq.recipes.settings import Parts

MakeEnv = Callable[[], Awaitable[Env]]


@asynccontextmanager
async def open_world(parts: Parts) -> AsyncIterator[MakeEnv]:
    """A factory of environments, good until the context ends."""

    async def make_text_env() -> Env:
        return TextEnv(parts.suite)

    yield make_text_env
