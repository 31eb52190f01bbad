"""MiniWoB++ served, and a real Chromium, shared by this folder's tests."""

from collections.abc import AsyncIterator
from importlib.util import find_spec

import pytest
import pytest_asyncio

from bestofq.browser.browser import Browser
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def suite() -> AsyncIterator[MiniWob]:
    if find_spec("miniwob") is None:
        pytest.skip("MiniWoB++'s pages are not installed")
    made = MiniWob(MiniWobSettings())
    async with made.open():
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(suite: MiniWob) -> Browser:
    assert suite.browser is not None
    return suite.browser


@pytest_asyncio.fixture(loop_scope="session")
async def env(suite: MiniWob, browser: Browser) -> AsyncIterator[MiniWobEnv]:
    made = MiniWobEnv(suite.root, browser)
    yield made
    await made.close()
