"""What a test sees of the viewer in Chromium."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from playwright.async_api import Page

WIDTH = "it => { const i = new Image(); i.src = it.href.baseVal; return i.decode().then(() => i.naturalWidth) }"


@dataclass
class Look:
    """A page of the viewer, with what it asked for and complained of."""

    page: Page
    root: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, page: Page, root: str) -> "Look":
        it = cls(page, root)
        page.set_default_timeout(30_000)
        page.on("request", lambda request: it.requests.append(request.url))
        page.on("console", lambda message: it.complaints.append(message.text))
        page.on("pageerror", lambda error: it.complaints.append(str(error)))
        return it

    async def go(self, path: str) -> None:
        await self.page.goto(self.root + path)

    async def text(self, selector: str) -> str:
        return await self.page.locator(selector).first.inner_text()

    async def count(self, selector: str) -> int:
        return await self.page.locator(selector).count()


Looking = Callable[..., AbstractAsyncContextManager[Look]]
