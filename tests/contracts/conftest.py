"""A real Chromium, shared by this folder's tests."""

from collections.abc import AsyncIterator

import pytest_asyncio

from bestofq.browser.browser import Browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with Browser.launch() as made:
        yield made
