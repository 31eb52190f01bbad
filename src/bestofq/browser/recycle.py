"""Use an episode's page again for the next episode, after cleaning it.

A new context and page cost about 200 ms, a cleaned one 50. A page is used again only if all traces are known. Every
document had one origin, and no other tab was opened. The next episode has the same origin and allowed hosts. Then
cookies, HTTP cache, all storage of the origin and the history are removed. This happens on a blank page, so that no
script of the old document can write afterwards. Session storage and window.name are cleared before the next document's
scripts run.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from bestofq.browser.tab import Tab, within
from bestofq.core.errors import BrowserError

_PATIENCE = 1.0  # seconds to clean a room, which takes 50 ms: a page that hangs is closed instead
_AT_START = "if (window === top) { try { sessionStorage.clear(); window.name = ''; } catch {} }"
_HOLD_NOTHING = ("about:", "data:", "chrome-error:")  # documents without an origin of their own


@dataclass(kw_only=True)
class RecycledContext:
    """A browser context and its first tab, with what they have seen."""

    context: BrowserContext
    tab: Tab
    hosts: tuple[str, ...]
    shared: bool = False  # its context is a user's, with pages of their own
    once: bool = False  # for one episode only
    origin: str = ""  # the only one its documents were of
    reusable: bool = True
    at_start: str | None = None  # id of the script that clears session storage at the next document
    arrivals: list[Page] = field(default_factory=list)  # tabs its pages have opened, not adopted yet

    def __post_init__(self) -> None:
        if self.shared:
            self.tab.page.on("popup", self._on_page)
        else:
            self.context.on("page", self._on_page)

    def _on_page(self, page: Page) -> None:
        self.once = True  # what it held before it was attached is not known
        if self.shared:
            page.on("popup", self._on_page)
        self.arrivals.append(page)
        self.tab.wake()

    async def new_tab(self) -> None:
        """Open an empty tab. It arrives like one that a page opens."""
        page = await within(self.tab.limit, "context.new_page", self.context.new_page())
        if self.shared:
            self._on_page(page)

    def fits(self, url: str, hosts: Sequence[str]) -> bool:
        return self.hosts == tuple(hosts) and self.origin == origin(url)

    def left(self) -> None:
        """Note at the end of an episode the origin of its first tab, and whether the room can be used again."""
        tab = self.tab
        seen = {origin(url) for url in tab.documents if not url.startswith(_HOLD_NOTHING)}
        self.origin = next(iter(seen), "")
        web = self.origin.startswith(("http://", "https://"))
        alone = len(seen) == 1 and not self.once and tab.opened_at is None
        self.reusable = alone and web and not (tab.crashed or tab.hung or tab.page.is_closed())

    async def remove_script(self) -> None:
        """Remove the script that cleared session storage, once the first document of the episode is loaded."""
        if self.at_start is not None:
            await self.tab.send("Page.removeScriptToEvaluateOnNewDocument", identifier=self.at_start)
            self.at_start = None


def origin(url: str) -> str:
    """Scheme, host and port of a URL (of the one inside a blob: URL), without a default port."""
    parts = urlsplit(url.removeprefix("blob:"))
    default = {"http": 80, "https": 443}.get(parts.scheme)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{name}" + (f":{parts.port}" if parts.port and parts.port != default else "")


async def clean(room: RecycledContext) -> bool:
    """Clean the room. False if it could not be done, and the room must be closed."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await _clean(room)
    except (BrowserError, PlaywrightError, TimeoutError):
        return False


async def _clean(room: RecycledContext) -> bool:
    tab = room.tab
    await within(tab.limit, "page.goto(about:blank)", tab.goto("about:blank"))
    room.left()  # a frame or tab may have come at the last moment
    if not room.reusable:
        return False
    made = await asyncio.gather(
        tab.send("Page.addScriptToEvaluateOnNewDocument", source=_AT_START),
        tab.send("Storage.clearDataForOrigin", origin=room.origin, storageTypes="all"),
        tab.send("Network.clearBrowserCookies"),
        tab.send("Network.clearBrowserCache"),
        tab.send("Page.resetNavigationHistory"),
    )
    room.at_start = made[0]["identifier"]
    tab.documents.clear()
    tab.notices.clear()
    tab.posted.clear()
    tab.refused.clear()
    return not room.once
