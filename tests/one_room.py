"""One Chromium for the tests of a worker, and a browser session that spares them a browser context for each page."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy

from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.browser.guard import allows
from bestofq.browser.session import BrowserSession
from bestofq.core.errors import BrowserError


def as_set(browser: Browser, config: BrowserConfig) -> Browser:
    """The same Chromium, with other settings for its pages."""
    made = copy(browser)
    made.config = config
    return made


def launching(browser: Browser) -> Callable[[BrowserConfig | None], nullcontext[Browser]]:
    """`Browser.launch`, but that it starts nothing: a Chromium takes a second to start."""
    return lambda config=None: nullcontext(as_set(browser, config or BrowserConfig()))


class OneRoom(BrowserSession):
    """Its pages follow one another in one context, with the same storage: a third of a new context's time."""

    async def reset(self, url: str, allowed_hosts: Sequence[str] = ()) -> None:
        if self._room is None or (*allowed_hosts,) != self.hosts or not allows(allowed_hosts, url):
            await super().reset(url, allowed_hosts)
            return
        self.start_url, self._last, self._refused = url, None, set()
        for tab in self._tabs:
            tab.notices.clear()
            tab.refused.clear()
        try:
            await self.tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=self.config.width, y=0)
            await self.restore([url])
        except BrowserError:  # the page before hangs
            await super().reset(url, allowed_hosts)
