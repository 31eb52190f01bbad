"""A real Chromium to look at reports, shared by this folder's tests."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from bestofq.browser.chromium import find_chromium, switches
from bestofq.browser.config import BrowserConfig


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=switches(BrowserConfig()))
        yield browser
        await browser.close()
