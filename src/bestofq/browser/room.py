"""A browser context of one episode's own: cookies, storage and history begin empty and end with it."""

import asyncio
from dataclasses import dataclass, field

from playwright.async_api import BrowserContext, Page

from bestofq.browser.tab import Tab, within

TABS = 10  # open at once; what its pages open beyond them is closed again
CROWDED = f"The page opened more than {TABS} tabs; the others were closed."


@dataclass(kw_only=True)
class Room:
    """A browser context and its first tab."""

    context: BrowserContext
    tab: Tab
    shared: bool = False  # its context is a user's, with pages of their own
    arrivals: list[Page] = field(default_factory=list)  # tabs its pages have opened, not adopted yet
    _opened: list[Page] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.shared:
            self.tab.page.on("popup", self._on_page)
        else:
            self.context.on("page", self._on_page)

    def _on_page(self, page: Page) -> None:
        self._opened = [other for other in self._opened if not other.is_closed()]
        if len(self._opened) >= TABS - 1:
            self.tab.notices += [] if CROWDED in self.tab.notices else [CROWDED]
            asyncio.gather(page.close(), return_exceptions=True)  # nobody waits for it
            return
        if self.shared:
            page.on("popup", self._on_page)
        self._opened.append(page)
        self.arrivals.append(page)
        self.tab.wake()

    async def new_tab(self) -> None:
        """Open an empty tab. It arrives like one that a page opens."""
        del self._opened[TABS - 2 :]
        page = await within(self.tab.limit, "context.new_page", self.context.new_page())
        if self.shared:
            self._on_page(page)
