"""A page of anybody's Playwright browser, seen and acted on as ours are."""

import asyncio
from collections.abc import Sequence

from playwright.async_api import Page

from bestofq.browser.config import BrowserConfig
from bestofq.browser.room import Room
from bestofq.browser.session import BrowserSession
from bestofq.browser.tab import Tab
from bestofq.core.actions import Action
from bestofq.core.errors import ConfigError, InputError
from bestofq.core.observation import Observation

_sessions: dict[Page, BrowserSession] = {}
"""Of the pages that are open."""


class AttachedPage:
    """`PageSource` of one page, which stays where it is and is never closed."""

    def __init__(self, page: Page) -> None:
        self.config = BrowserConfig()
        self.turns = asyncio.Semaphore(1)
        self._page = page

    async def open_room(self, hosts: Sequence[str]) -> Room:
        """ConfigError for a list of hosts: this browser is not ours, so its connections cannot be refused."""
        if hosts:
            raise ConfigError(f"a page of another browser cannot be held to {', '.join(hosts)}: leave the hosts out")
        tab = await Tab.open(self._page, self.config)
        return Room(context=self._page.context, tab=tab, shared=True)

    async def close_room(self, room: Room) -> None: ...


async def observe(page: Page, *, screenshot: bool = False) -> Observation:
    """The page of a Playwright browser (async API) when it has settled, with a mark for each element to act on.
    InputError if it is no such page, BrowserError if it is closed."""
    session = await _session(page)
    await session.settle()
    return await session.snapshot(screenshot=screenshot)


async def act(page: Page, action: Action) -> str | None:
    """Carry out an action and wait until the page has settled. Return why it could not be done, or None.

    Marks mean the elements of the last `observe`. If the action opens a tab, the next `observe` reads that tab. Errors
    as `observe`.
    """
    return await (await _session(page)).act(action)


async def _session(page: Page) -> BrowserSession:
    if not isinstance(page, Page):
        raise InputError(f"{type(page).__module__}.{type(page).__name__} is no page of playwright.async_api: give one")
    if page not in _sessions:
        _sessions[page] = session = BrowserSession(AttachedPage(page))
        await session.attach(page.url)
        page.once("close", _forget)
    return _sessions[page]


def _forget(page: Page) -> None:
    _sessions.pop(page, None)
