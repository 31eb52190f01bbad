"""One Chromium process and the pages lent to episodes."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from playwright.async_api import Browser as Chromium
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, ProxySettings, async_playwright

from bestofq.browser.chromium import start
from bestofq.browser.config import BrowserConfig
from bestofq.browser.guard import NetworkGuard
from bestofq.browser.room import Room
from bestofq.browser.tab import Tab, within
from bestofq.core.errors import BrowserError, ConfigError, SetupError


class Browser:
    """Chromium, relaunched when it has crashed. Many sessions at once; each has a browser context of its own."""

    def __init__(self, playwright: Playwright, config: BrowserConfig) -> None:
        self.config = config
        self._playwright = playwright
        self._chromium: Chromium | None = None
        self._launching = asyncio.Lock()
        self._guard = NetworkGuard()
        # Work that is bound by the processor takes turns. Otherwise all of it would end together, and the episodes
        # would wait for the model and for the processor in step, one idle while the other works.
        # New pages have turns of their own, or the first snapshot would wait for the last new page.
        cores = os.cpu_count() or 1
        self.turns, self._openings = asyncio.Semaphore(cores), asyncio.Semaphore(cores)

    @classmethod
    @asynccontextmanager
    async def launch(cls, config: BrowserConfig | None = None) -> AsyncIterator["Browser"]:
        """Chromium until the context ends. SetupError without one, ConfigError if the logins' file is missing."""
        if config and config.storage and not config.storage.is_file():
            raise ConfigError(
                f"suite.browser.storage={config.storage} is no file: save Playwright's storage_state there"
            )
        async with async_playwright() as playwright:
            browser = cls(playwright, config or BrowserConfig())
            try:
                await browser._ensure_chromium()
                yield browser
            finally:
                await browser._close()

    async def _ensure_chromium(self) -> Chromium:
        async with self._launching:
            if self._chromium is None or not self._chromium.is_connected():
                cdp = self.config.cdp
                self._chromium = await (start(self._playwright, self.config) if cdp is None else self._connect(cdp))
            return self._chromium

    async def _connect(self, address: str) -> Chromium:
        """SetupError if no browser answers. It does not reveal the value of a `$NAME` in the address."""
        whole, limit = os.path.expandvars(address), self.config.deadline * 1000
        try:
            return await self._playwright.chromium.connect_over_cdp(whole, timeout=limit)
        except PlaywrightError:
            raise SetupError(
                f"no browser answers at {address}: start one with --remote-debugging-port=9222, and give its address "
                "by suite.browser.cdp"
            ) from None

    async def open_room(self, hosts: Sequence[str]) -> Room:
        """Open a context with a page for an episode. ConfigError as `_proxy`, BrowserError if there is none."""
        async with self._openings:
            try:
                return await self._new_room(await self._ensure_chromium(), hosts)
            except PlaywrightError as error:
                raise BrowserError(f"Chromium gave no page: {error.message.splitlines()[0]}") from error

    async def _new_room(self, chromium: Chromium, hosts: Sequence[str]) -> Room:
        config = self.config
        opening = chromium.new_context(
            viewport={"width": config.width, "height": config.height},
            accept_downloads=False,
            locale=config.locale,
            storage_state=config.storage,
            reduced_motion="reduce",
            proxy=self._proxy(hosts),
        )
        context = await within(config.deadline, "new_context", opening)
        page = await within(config.deadline, "new_page", context.new_page())
        return Room(context=context, tab=await Tab.open(page, config))

    def _proxy(self, hosts: Sequence[str]) -> ProxySettings | None:
        """ConfigError if hosts are to be refused, and the user's own proxy would fetch from any."""
        if self.config.proxy is None:
            return self._guard.proxy(hosts)
        if hosts:
            raise ConfigError(
                f"suite.browser.proxy={self.config.proxy} would fetch from any host, but this task allows only "
                f"{', '.join(hosts[:3])}: allow every host, or leave the proxy out"
            )
        return {"server": os.path.expandvars(self.config.proxy)}

    async def close_room(self, room: Room) -> None:
        """Close a room and all it holds. After a crash of Chromium there is nothing to close."""
        if self._chromium is None or not self._chromium.is_connected():
            return
        with suppress(BrowserError, PlaywrightError):  # what cannot be closed is no reason to stop
            await within(self.config.deadline, "context.close", room.context.close())

    async def _close(self) -> None:
        self._guard.close()
        if self._chromium is not None and self._chromium.is_connected():
            await within(self.config.deadline, "browser.close", self._chromium.close())
