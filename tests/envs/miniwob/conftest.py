"""MiniWoB++ served, and a real Chromium, shared by this folder's tests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib.util import find_spec

import pytest
import pytest_asyncio
from one_room import launching

from bestofq.browser.browser import Browser
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def suite(browser: Browser) -> AsyncIterator[MiniWob]:
    if find_spec("miniwob") is None:
        pytest.skip("MiniWoB++'s pages are not installed")
    made = MiniWob(MiniWobSettings())
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Browser, "launch", launching(browser))
            await stack.enter_async_context(made.open())
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def env(suite: MiniWob) -> AsyncIterator[MiniWobEnv]:
    assert suite.browser is not None
    made = MiniWobEnv(suite.root, suite.browser)
    yield made
    await made.close()
