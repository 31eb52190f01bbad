"""One episode in the browser: its tabs, its navigation, and the wait for a page to settle."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from bestofq.browser.actions import Impossible, May, address, perform
from bestofq.browser.config import BrowserConfig
from bestofq.browser.guard import allows, refusal
from bestofq.browser.room import Room
from bestofq.browser.settling import describe
from bestofq.browser.snapshot import jpeg, observe
from bestofq.browser.tab import REFUSED, Moved, Tab, is_gone, within
from bestofq.core.actions import Action, Click, GoBack, Goto, Refresh, Restart, SwitchTab
from bestofq.core.errors import BrowserError, ConfigError
from bestofq.core.observation import Element, Observation

TRIES = 20  # documents that may replace each other during one snapshot
PAUSE = 0.25  # seconds between looks at what only the clock changes
RELOAD_PATIENCE = 2.0  # seconds that a page which loads itself again and again is waited for
INSTANT_PATIENCE = 1.0  # seconds that a page which answers at once is waited for


class PageSource(Protocol):
    """Where a session's page comes from: our own browser, or one that runs already."""

    config: BrowserConfig
    turns: asyncio.Semaphore  # for what is bound by the processor

    async def open_room(self, hosts: Sequence[str]) -> Room: ...

    async def close_room(self, room: Room) -> None: ...


class BrowserSession:
    """A page for one episode at a time, from `reset` to `close`. Marks mean elements of the last snapshot."""

    def __init__(self, browser: PageSource) -> None:
        self.config = browser.config
        self._patience = browser.config.load_patience * 1000  # milliseconds
        self._unfinished = f"The page did not finish loading within {browser.config.load_patience:g} s."
        self.start_url = ""
        self.hosts: tuple[str, ...] = ()
        self.earlier: tuple[str, ...] = ()  # pages before the tab's own history, after `restore`
        self._browser = browser
        self._room: Room | None = None
        self._refused: set[str] = set()  # by tabs that are closed
        self._last: Action | None = None
        self._tabs: list[Tab] = []  # all of this episode, the current one last among those open

    @property
    def tab(self) -> Tab:
        """The current tab. Raises BrowserError when none is open."""
        return self._open_tabs()[0]

    def _open_tabs(self) -> list[Tab]:
        tabs = [tab for tab in reversed(self._tabs) if not tab.page.is_closed()]
        if not tabs:
            raise BrowserError("The session has no open page; reset it first.")
        return tabs

    @property
    def refused(self) -> set[str]:
        """Hosts that this episode's pages asked for in vain, since they are not among its own."""
        return self._refused.union(*(tab.refused for tab in self._tabs))

    async def reset(self, url: str, allowed_hosts: Sequence[str] = ()) -> None:
        """A clean page at `url`, held to `allowed_hosts` (empty: any). ConfigError outside them, BrowserError."""
        await self.close()
        self._refused = set()
        if not allows(allowed_hosts, url):
            raise ConfigError(f"The task starts outside its own hosts: {refusal(url, allowed_hosts)}")
        self.hosts, self.earlier = tuple(allowed_hosts), ()
        room = await self.attach(url)
        try:
            await self._goto(url)
        except Impossible as error:
            self._room, self._tabs = None, []
            await self._browser.close_room(room)
            raise BrowserError(f"The start page did not load: {error}") from error
        if not await self.settle():
            self.tab.notice(self._unfinished)
        room.tab.base_entry = (await room.tab.send("Page.getNavigationHistory"))["currentIndex"]

    async def attach(self, url: str) -> Room:
        """Takes the opened page as it is; the episode starts at `url`."""
        self.start_url, self._last = url, None
        self._room = room = await self._browser.open_room(self.hosts)
        self._tabs = [room.tab]
        return room

    async def act(self, action: Action, may: May | None = None) -> str | None:
        """Carry out an action and wait until the page has settled. Return why it could not be done, in one sentence, or
        None. The browser cannot `answer`, `ask_user` or find targets in words. `may` decides on what a click, Enter or
        a submission is about to press, on the page at that time."""
        for tab in self._open_tabs():
            tab.traffic.waiting, tab.downloaded = True, False
        tab = self.tab
        tab.accepted = tab.dismissed if action == self._last else set()
        tab.dismissed, self._last = set(), action
        error = None
        try:
            for _, question in tab.accepted if may else ():
                await self._confirm(question, may)
            await self._perform(action, may)
        except Impossible as impossible:
            error = str(impossible)
        except Moved:
            pass  # a navigation overtook the action's last call
        except BrowserError:
            if not await self._closed_itself(tab):
                raise
        if not await self.settle():
            error = error or self._unfinished
            await self.tab.send("Page.stopLoading")
        return await self._leave_error_page() or error

    async def _confirm(self, question: str, may: May | None) -> None:
        """Let `may` decide on the OK of a dialog as on a button after that question."""
        asked = Observation(
            url=self.tab.page.url,
            title=self.tab.title,
            text=f"{question} OK [1]",
            elements=(Element(mark=1, role="button", name="OK"),),
        )
        if may is not None:
            await may(Click(mark=1), asked)

    async def _perform(self, action: Action, may: May | None) -> None:
        match action:
            case Goto():
                await self._goto(address(action.url))
            case Restart():
                await self._goto(self.start_url)
            case GoBack():
                await self._go_back()
            case SwitchTab():
                await self._switch_tab(action.tab)
            case Refresh():
                page = self.tab.page
                if page.url.partition("#")[0] in self.tab.posted:
                    raise Impossible("The page answers a form that was sent; to refresh it would send the form again.")
                await self._navigate("page.reload", page.reload(wait_until="commit", timeout=self._patience))
            case _:
                await perform(self.tab, action, may)

    async def _goto(self, url: str) -> None:
        if not allows(self.hosts, url):
            raise Impossible(refusal(url, self.hosts))
        await self._navigate(f"page.goto({url})", self.tab.goto(url, self._patience), url)

    async def _begin_at(self, url: str) -> None:
        """Load a page in the current tab as the first of its history (Chromium keeps 50 pages at most)."""
        await self._goto(url)
        await self.tab.send("Page.resetNavigationHistory")
        self.tab.base_entry = 0

    async def _go_back(self) -> None:
        """To the previous page of this tab. A tab that another one opened is closed."""
        if await self._to_previous_entry() or await self.close_tab():
            return
        if not self.earlier:
            raise Impossible("There is no page to go back to.")
        url, self.earlier = self.earlier[-1], self.earlier[:-1]
        await self._begin_at(url)

    async def _to_previous_entry(self) -> bool:
        """Go one back in the tab's own history. False at its beginning."""
        history = await self.tab.send("Page.getNavigationHistory")
        if history["currentIndex"] <= self.tab.base_entry:
            return False
        entry = history["entries"][history["currentIndex"] - 1]["id"]
        await self._navigate("Page.navigateToHistoryEntry", self._wait_for_entry(entry))
        return True

    async def _wait_for_entry(self, entry: int) -> None:
        """Go to an entry of the tab's history and wait for it. On a busy machine the old page's end of loading can come
        late and look like that of the new one."""
        page = self.tab.page
        arrived = page.expect_event("framenavigated", lambda frame: frame == page.main_frame, timeout=self._patience)
        async with arrived:
            await self.tab.send("Page.navigateToHistoryEntry", entryId=entry)

    async def _navigate(self, call: str, navigation: Awaitable[Any], url: str = "") -> None:
        try:
            await within(self.tab.limit, call, navigation)
        except PlaywrightTimeout as error:
            await self.tab.send("Page.stopLoading")
            raise Impossible(f"{url or 'The page'} did not answer within {self.config.load_patience:g} s.") from error
        except PlaywrightError as error:
            if is_gone(error):
                raise
            raise Impossible(_failure(url or self.tab.page.url, error.message, self.hosts)) from error

    async def _closed_itself(self, tab: Tab) -> bool:
        """Whether a page is gone by its own doing (`window.close()`), with another tab to continue in."""
        gone = not tab.crashed and await _closes(tab.page)
        return gone and any(not other.page.is_closed() for other in self._tabs)

    async def _leave_error_page(self) -> str | None:
        """Leave a page that could not be loaded for the one before it. Return why it could not be loaded."""
        if error := self._unreachable():
            with suppress(Impossible):  # the one before it is as unreachable
                if await self._to_previous_entry() or await self.close_tab():
                    await self.settle()
        return error

    def _unreachable(self) -> str | None:
        """Why the current page is an error page. None if it is none."""
        tab = self.tab
        if not tab.unreachable:
            return None
        if not allows(self.hosts, tab.unreachable):
            tab.refused.add(urlsplit(tab.unreachable).netloc)
        return _failure(tab.unreachable, tab.reason, self.hosts)

    async def snapshot(self, *, screenshot: bool = False, error: str | None = None) -> Observation:
        """The page now, with the notices since the last snapshot."""
        for tried in range(TRIES):
            tab = self.tab
            try:
                async with self._browser.turns:
                    asked = [tab.read(), *([tab.jpeg()] if screenshot else [])]
                    answers: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
                if failed := next((answer for answer in answers if isinstance(answer, BaseException)), None):
                    raise failed
                page, *drawn = answers
            except Moved:
                if tab.loops:  # it never settles
                    await tab.stop()
                else:
                    await (tab.change(PAUSE) if tried else self.settle())
                continue
            except BrowserError:
                if not await self._closed_itself(tab):
                    raise
                continue
            shot = jpeg(drawn[0]) if drawn else None
            tab.title = page["title"] or page["url"]
            titles = tuple(other.title for other in self._open_tabs())
            if page.get("refusal"):
                tab.notice(page["refusal"])
            notices = tuple(notice for other in self._tabs for notice in other.notices)
            for other in self._tabs:
                other.notices.clear()
            refused = tuple(sorted(self.refused)) or None
            error = error or self._unreachable()
            more = {"screenshot": shot, "tabs": titles, "error": error, "notices": notices, "refused": refused}
            return observe(page).model_copy(update=more)
        raise BrowserError(f"The page navigated {TRIES} times while it was read.")

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of a script in the current page's own world: for suites whose pages keep their own score.
        BrowserError when the script fails or the page is replaced meanwhile."""
        try:
            return await self.tab.run(expression)
        except Moved as error:
            raise BrowserError("The page was replaced while a script of the suite ran.") from error

    async def settle(self) -> bool:
        """Wait for the page's answer to the act or the load. False if a document was still loading at the end.

        It takes at most `config.patience` seconds after an act and `config.load_patience` if documents load. What is
        still under way then is a notice.
        """
        clock, config = asyncio.get_running_loop().time, self.config
        begun, instant = clock(), config.settle == "instant"
        there: float | None = None  # when the document was there
        changed, why = False, ""
        for tab in self._tabs:
            tab.visits.clear()
        while True:
            await self._adopt()
            if self.tab.page.url in {"", "about:blank"} and any(tab.downloaded for tab in self._tabs):
                self.tab.notices.clear()  # a tab that a download has opened
                await self.close_tab()
            if self.tab.stuck:
                await self._replace(self.tab)
            tab, since = self.tab, clock() - begun
            loading = tab.opening or tab.navigating
            limit = config.load_patience if tab.loaded or loading else config.patience
            if tab.loops and since >= (limit := min(limit, RELOAD_PATIENCE)):
                tab.notice(f"After {limit:g} s the page still loads itself again and again.")
                await tab.stop()
                await tab.finish()
                return True
            if loading:
                if since >= limit:
                    return False
                await tab.change(PAUSE)
                there = None
                continue
            if there is None:
                there = clock() if tab.loaded else begun
            traffic, age = tab.traffic, clock() - there
            waits = traffic.find_open(age, changed=changed, instant=instant)
            left = min(limit - since, INSTANT_PATIENCE - age if instant else limit)
            if left <= 0:
                state = f"waits for {describe(waits)}" if waits else await tab.finish()
                state = state or ("changes" if why == "changing" else "")
                if state and not instant:
                    tab.notice(f"After {limit:g} s the page still {state}.")
                await tab.finish()
                return True
            try:
                answer = await tab.rest(
                    {
                        "limit": min(left, PAUSE) * 1000,
                        "age": age * 1000,
                        "load": tab.loaded,
                        "open": bool(waits),
                        "heard": (clock() - traffic.begun_at) * 1000,
                        "lively": traffic.lively,
                        "stream": traffic.streaming,
                        "fetched": clock() - traffic.ended_at < PAUSE,
                        "instant": instant,
                    }
                )
            except Moved:
                continue
            except BrowserError:
                if not await self._closed_itself(tab):
                    raise
                continue
            changed, why = changed or answer["changed"], answer["why"]
            if why or tab.navigating or tab.opening or self._arrivals or tab.page.is_closed():
                continue
            if not (waits := traffic.find_open(clock() - there, changed=changed, instant=instant)):
                tab.loaded = False
                traffic.rest()
                return True
            await tab.change(min(limit, PAUSE))

    @property
    def _arrivals(self) -> list[Page]:
        return self._room.arrivals if self._room else []

    async def _adopt(self) -> None:
        """Add new tabs to this episode. The newest is the current one."""
        while self._arrivals:
            page = self._arrivals.pop(0)
            blank = page.url in {"", "about:blank"} and self.tab.opened_url not in {"", "about:blank"}
            for other in self._tabs:
                other.opened_at = None
            try:
                tab = await Tab.open(page, self.config)
            except (BrowserError, PlaywrightError):
                if not await _closes(page):
                    raise
                continue
            if blank:
                tab.expect_navigation()
            self._tabs.append(tab)
            tab.notices.append("A new tab was opened and is now the current one.")

    async def _replace(self, stuck: Tab) -> None:
        """Open in a new tab the page that a stuck tab was going to."""
        self.earlier = (*self.earlier, stuck.page.url)
        assert self._room is not None
        await self._room.new_tab()
        await self._adopt()
        await within(self.config.deadline, "page.close", stuck.page.close())
        try:
            await self._goto(stuck.leaving_for or self.start_url)
        except Impossible as error:
            self.tab.notice(str(error))

    async def close_tab(self) -> bool:
        """Close the current tab if another is open. Return whether it did."""
        if len(self._open_tabs()) < 2:
            return False
        await within(self.config.deadline, "page.close", self.tab.page.close())
        return True

    async def _switch_tab(self, number: int) -> None:
        tabs = self._open_tabs()
        if number > len(tabs):
            raise Impossible(f"There is no tab {number}: {len(tabs)} open.")
        tab = tabs[number - 1]
        self._tabs.remove(tab)
        self._tabs.append(tab)
        await within(self.config.deadline, "page.bring_to_front", tab.page.bring_to_front())

    async def history(self) -> tuple[str, ...]:
        """The addresses that `go_back` leads through, the current one last."""
        history = await self.tab.send("Page.getNavigationHistory")
        entries = history["entries"][self.tab.base_entry : history["currentIndex"] + 1]
        return (*self.earlier, *(entry["url"] for entry in entries))

    async def restore(self, history: Sequence[str]) -> None:
        """Show the last of these pages in a single tab, so that `go_back` leads through the others."""
        while await self.close_tab():
            pass
        await self._begin_at(history[-1])
        self.earlier = tuple(history[:-1])
        await self.settle()

    async def close(self) -> None:
        """End the episode and give the page back. May be called again."""
        room, self._room = self._room, None
        if room is not None:
            self._refused = self.refused
            self._tabs = []
            await self._browser.close_room(room)


async def _closes(page: Page) -> bool:
    """Whether a page that could not be reached is closed; the browser says so a moment later."""
    if not page.is_closed():
        with suppress(PlaywrightError):
            await page.wait_for_event("close", timeout=PAUSE * 1000)
    return page.is_closed()


def _failure(url: str, reason: str, hosts: tuple[str, ...]) -> str:
    """Why a navigation failed, from Chromium's own words."""
    if REFUSED in reason or not allows(hosts, url):
        return refusal(url, hosts)
    if "ERR_ABORTED" in reason or "Download is starting" in reason:
        return f"{url} holds nothing to show: it is a download, or empty."
    if "interrupted by another navigation" in reason:
        return f"{url} was left for another page while it was loading."
    code = next((word for word in reason.split() if word.startswith("net::")), reason.partition("\n")[0])
    return f"{url} cannot be loaded{code and ': '}{code}."
