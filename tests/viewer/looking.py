"""What a test sees of the viewer in Chromium."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from playwright.async_api import Page


@dataclass
class Look:
    """A page of the viewer, with what it asked for and complained of."""

    page: Page
    root: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        await self.page.goto(self.root + path)

    async def text(self, selector: str) -> str:
        return await self.page.locator(selector).first.inner_text()

    async def count(self, selector: str) -> int:
        return await self.page.locator(selector).count()


Looking = Callable[..., AbstractAsyncContextManager[Look]]
