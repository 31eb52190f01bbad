"""One episode in the browser: its tabs, what happens beside its actions, and the wait for the page to settle."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from playwright.async_api import Page

from bestofq.browser.actions import Impossible, failure, goto, perform
from bestofq.browser.config import BrowserConfig
from bestofq.browser.deadline import within
from bestofq.browser.guard import allows, refusal
from bestofq.browser.recycle import Room, started
from bestofq.browser.snapshot import jpeg, observe
from bestofq.browser.tab import Moved, Tab
from bestofq.core.actions import Action
from bestofq.core.errors import BrowserError, ConfigError
from bestofq.core.observation import Observation

TRIES = 20  # documents that may replace each other during one snapshot
PAUSE = 0.25  # seconds between looks at what only the clock changes


class Lender(Protocol):
    """What a session needs of `browser.Browser`: pages, and turns at the processor."""

    config: BrowserConfig
    turns: asyncio.Semaphore

    async def lend(self, url: str, hosts: Sequence[str]) -> Room: ...

    async def give_back(self, room: Room) -> None: ...

    async def discard(self, room: Room) -> None: ...


class Session:
    """A page for one episode at a time. Marks mean the elements of the last snapshot."""

    def __init__(self, browser: Lender) -> None:
        self.start_url = ""
        self.hosts: tuple[str, ...] = ()
        self.earlier: tuple[str, ...] = ()  # pages before the tab's own history, for `places.put_back`
        self._browser = browser
        self._room: Room | None = None
        self._refused: set[str] = set()  # by tabs that are closed
        self._tabs: list[Tab] = []  # all of this episode, the current one last among those open

    @property
    def config(self) -> BrowserConfig:
        return self._browser.config

    @property
    def tab(self) -> Tab:
        """The current tab. Raises BrowserError when none is open."""
        return self._open_tabs()[0]

    def _open_tabs(self) -> list[Tab]:
        found = [tab for tab in reversed(self._tabs) if not tab.page.is_closed()]
        if not found:
            raise BrowserError("The session has no open page; reset it first.")
        return found

    @property
    def refused(self) -> set[str]:
        """Hosts that this episode's pages asked for in vain, since they are not among its own."""
        return self._refused.union(*(tab.refused for tab in self._tabs))

    async def reset(self, url: str, allowed_hosts: Sequence[str] = ()) -> None:
        """A clean page at `url`, held to `allowed_hosts` (empty: any).

        Raises ConfigError when `url` is not among them, BrowserError when it cannot be loaded.
        """
        await self.close()
        self._refused = set()
        if not allows(allowed_hosts, url):
            raise ConfigError(f"The task starts outside its own hosts: {refusal(url, allowed_hosts)}")
        self.start_url, self.hosts, self.earlier = url, tuple(allowed_hosts), ()
        self._room = await self._browser.lend(url, self.hosts)
        self._tabs = [self._room.tab]
        tab = self._room.tab
        try:
            await goto(self, url)
        except Impossible as error:
            await self._give_up()
            raise BrowserError(f"The start page did not load: {error}") from error
        await asyncio.gather(started(self._room), self.settle())
        tab.base_entry = (await tab.send("Page.getNavigationHistory"))["currentIndex"]

    async def act(self, action: Action) -> str | None:
        """Carries out an action and waits until the page has settled.

        Returns why it could not be done, one sentence, or None. `answer`, `ask_user` and targets in words are not the
        browser's to carry out.
        """
        for tab in self._open_tabs():
            tab.forget()
        tab = self.tab
        error = None
        try:
            await perform(self, action)
        except Impossible as impossible:
            error = str(impossible)
        except Moved:
            error = None  # a navigation overtook the action's last call
        except BrowserError:
            if not await self._closed_itself(tab):
                raise
        if not await self.settle():
            error = error or f"The page did not finish loading within {self.config.navigation:g} s."
            await self.tab.send("Page.stopLoading")
        return await self._leave_error_page() or error

    async def _closed_itself(self, tab: Tab) -> bool:
        """Whether a page is gone by its own doing (`window.close()`), with another tab to go on in."""
        if not tab.page.is_closed() and not tab.crashed:
            await tab.change(PAUSE)
        return tab.page.is_closed() and not tab.crashed and any(not other.page.is_closed() for other in self._tabs)

    async def _leave_error_page(self) -> str | None:
        """From a page that could not be loaded, back to the one before it; why it could not be loaded."""
        tab = self.tab
        if not tab.unreachable:
            return None
        error = failure(tab.unreachable, tab.reason, self.hosts)
        history = await tab.send("Page.getNavigationHistory")
        if history["currentIndex"] > tab.base_entry:
            tab.expect_navigation()
            entry = history["entries"][history["currentIndex"] - 1]["id"]
            await tab.send("Page.navigateToHistoryEntry", entryId=entry)
        elif not await self.close_tab():
            return error
        await self.settle()
        return error

    async def snapshot(self, *, screenshot: bool = False, error: str | None = None) -> Observation:
        """The page now. Notices gathered since the last snapshot are handed over with it."""
        for _ in range(TRIES):
            tab = self.tab
            try:
                async with self._browser.turns:
                    page = await tab.call("snapshot", self.config.text_limit)
                    data = await tab.jpeg() if screenshot else b""
            except Moved:
                await self.settle()
                continue
            shot = jpeg(data, self.config.device_scale_factor) if data else None
            tab.title = page["title"] or page["url"]
            titles = tuple(other.title for other in self._open_tabs())
            notices = tuple(notice for other in self._tabs for notice in other.notices)
            for other in self._tabs:
                other.notices.clear()
            return observe(page, screenshot=shot, tabs=titles, error=error, notices=notices)
        raise BrowserError(f"The page navigated {TRIES} times while it was read.")

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of a script in the current page's own world: for suites whose pages keep their own score.

        Raises BrowserError when the script fails or the page is replaced meanwhile.
        """
        try:
            return await self.tab.in_page(expression)
        except Moved as error:
            raise BrowserError("The page was replaced while a script of the suite ran.") from error

    async def settle(self) -> bool:
        """Waits until navigation has finished and mutations are quiet; False when a page was still loading at the end.

        Bounded by `config.navigation` seconds for documents and `config.settle` seconds for a page's own unrest.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + self.config.navigation
        calm_by: float | None = None  # set when the document is there
        while clock() < end:
            await self._adopt()
            tab = self.tab
            if tab.opening or tab.navigating:
                await tab.change(min(end - clock(), PAUSE))
                calm_by = None
                continue
            if calm_by is None:
                calm_by = clock() + self.config.settle
            left = max(calm_by - clock(), self.config.quiet)
            try:
                calm = await tab.rest(self.config.quiet, left)
            except Moved:
                continue
            except BrowserError:
                if tab.crashed or not tab.page.is_closed():
                    raise
                continue  # it closed itself; another tab is current
            if tab.navigating or tab.opening or self._arrivals or tab.page.is_closed():
                continue
            if clock() >= calm_by or (calm and not tab.fetching):
                return True
            if calm:
                await tab.change(min(calm_by - clock(), PAUSE))
        return False

    @property
    def _arrivals(self) -> list[Page]:
        return self._room.arrivals if self._room else []

    async def _adopt(self) -> None:
        """Makes new tabs this episode's own, the newest current."""
        while self._arrivals:
            page = self._arrivals.pop(0)
            blank = page.url in {"", "about:blank"} and self.tab.opened_url not in {"", "about:blank"}
            for other in self._tabs:
                other.arrived()
            if page.is_closed():
                continue
            tab = await Tab.open(page, self.config)
            if blank:
                tab.expect_navigation()
            self._tabs.append(tab)
            tab.notices.append("A new tab was opened and is now the current one.")

    async def close_tab(self) -> bool:
        """Closes the current tab where another is open; whether it did."""
        if len(self._open_tabs()) < 2:
            return False
        await within(self.config.deadline, "page.close", self.tab.page.close())
        return True

    async def close(self) -> None:
        """Ends the episode and gives the page back. May be called again."""
        room, self._room = self._room, None
        if room is not None:
            self._refused = self.refused
            room.left(self._tabs)
            self._tabs = []
            await self._browser.give_back(room)

    async def _give_up(self) -> None:
        room, self._room = self._room, None
        self._tabs = []
        if room is not None:
            await self._browser.discard(room)
