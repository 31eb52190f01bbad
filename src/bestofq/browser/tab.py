"""One page: its DevTools session, its loading, and the isolated world of our scripts."""

import asyncio
import base64
import re
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from math import inf
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, Dialog, Download, Page, Request
from playwright.async_api import Error as PlaywrightError

from bestofq.browser.config import JPEG_QUALITY, TEXT_LIMIT, BrowserConfig
from bestofq.browser.frames import SCRIPTS, ForeignFrames, Frame, World, evaluate
from bestofq.browser.settling import PULSE, Traffic
from bestofq.browser.snapshot import LISTENERS, PageSnapshot
from bestofq.core.errors import BrowserError
from bestofq.core.page_text import page_words

T = TypeVar("T")
NO_UPLOADS = "No file can be uploaded: the setting browser.uploads names no folder."
# Calls that may read the page.
READING = {"snapshot", "clickPoint", "fill", "submit", "focus", "scroll", "press", "pressEnter"}
REFUSED = "ERR_PROXY_CONNECTION_FAILED"  # Chromium's name for a request that `guard.Guard` stopped
NOT_ACTIVE = "Not attached to an active page"  # Chromium's words while one document is just replacing another
OPEN_GRACE = 3.0  # seconds in which a new tab must arrive
SOON = 2.5  # seconds until a navigation that the page has scheduled and that is waited for
REQUEST_GRACE = 1.0  # seconds in which a requested navigation must start, else it was dropped (a javascript: link)
LOOP = 4  # times that one address is gone to in one wait
NOTICES = 10  # reported of one page between two snapshots
WORDS = 300  # characters of a page's own that a notice holds


def _clock() -> float:
    return asyncio.get_running_loop().time()


class Moved(Exception):
    """The document a script ran in was replaced: a navigation committed."""


async def within(seconds: float, call: str, awaitable: Awaitable[T]) -> T:
    """The awaitable's result. BrowserError with the call's name if it takes longer or the browser has gone. Every call
    to the browser goes through here, because Playwright has no limit on `evaluate` and on raw protocol calls."""
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError as error:
        raise BrowserError(f"The browser did not finish {call} within {seconds:g} s.") from error
    except PlaywrightError as error:
        if is_gone(error):
            raise BrowserError(f"The browser or its page was gone during {call}.") from error
        raise


def is_gone(error: PlaywrightError) -> bool:
    """Whether the error says that page, context or browser no longer exist."""
    closed = ("has been closed", "Target closed", "Connection closed", "not attached")
    gone = (*closed, "Target crashed", "Page crashed", "no object with guid", "No target with given id")
    return any(words in error.message for words in gone)


class Tab:
    """A page to act on. `open` attaches to it. All calls keep the deadline."""

    def __init__(self, page: Page, cdp: CDPSession, config: BrowserConfig) -> None:
        self.page = page
        self.base_entry = 0  # of the navigation history: going back ends here
        self.crashed = False
        self.stuck = False  # in a dialog that nobody can answer, because its page is just being left
        self.leaving_for = ""  # the address last asked for by its main frame
        self.refused: set[str] = set()  # hosts that the guard kept it from
        self.posted: set[str] = set()  # addresses last answered to a form that was sent
        self.notices: list[str] = []  # events that are not reported yet
        self.unreachable = ""  # the address of an error page
        self.reason = ""  # Chromium's own word for why
        self.title = ""  # at the last snapshot
        self._cdp = cdp
        self.limit = max(config.deadline, config.load_patience)  # seconds any one call may take
        self.uploads = config.uploads
        self.uploading = False  # a file chooser is expected
        self.dismissed: set[tuple[str, str]] = set()  # dialogs of the last act, by type and message
        self.accepted: set[tuple[str, str]] = set()  # those that the same act may accept
        self.downloaded = False  # a file, since the last act
        self.opened_url = ""  # of the tab last asked for
        self.opened_at: float | None = None  # when this page asked for a tab that is not here yet
        self._world = World(self._ask, "")  # of the main frame's document
        self._requested: dict[str, float] = {}  # frame → when a script or link asked to navigate it
        self._due = -inf  # until when a `<meta http-equiv=refresh>` of the main frame must have navigated
        self._loading: set[str] = set()  # frames
        self._committed = False  # the main frame holds the new document, its DOM is not complete
        self._changed, self._whole = asyncio.Event(), asyncio.Event()
        self.loaded = True  # its document is new since the page last came to rest
        self.visits: Counter[str] = Counter()  # of each address, less its numbers and query, in this wait
        self.traffic = Traffic(page, self.wake)
        self._frames = ForeignFrames(page, cdp)

    @classmethod
    async def open(cls, page: Page, config: BrowserConfig) -> "Tab":
        cdp = await within(config.deadline, "new_cdp_session", page.context.new_cdp_session(page))
        tab = cls(page, cdp, config)
        page.on("crash", lambda _: tab._on_crash())
        page.on("request", tab._on_request)
        page.on("requestfailed", tab._on_failed)
        page.on("dialog", tab._on_dialog)
        page.on("download", tab._on_download)
        page.on("close", lambda _: tab.wake())
        for event, handler in {
            "frameRequestedNavigation": tab._on_requested,
            "frameScheduledNavigation": tab._on_scheduled,
            "frameStartedNavigating": tab._on_navigating,
            "frameStoppedLoading": lambda event: tab._on_frame_stopped(event["frameId"]),
            "frameDetached": lambda event: tab._on_frame_stopped(event["frameId"]),
            "frameNavigated": tab._on_navigated,
            "domContentEventFired": tab._on_dom,
            "windowOpen": tab._on_window,
            "fileChooserOpened": lambda _: tab._on_chooser(),
        }.items():
            cdp.on(f"Page.{event}", handler)
        await tab.send("Page.enable")
        await tab.send("Page.setInterceptFileChooserDialog", enabled=True)
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=PULSE, runImmediately=True)
        await tab.send("Page.addScriptToEvaluateOnNewDocument", **SCRIPTS)
        frame = (await tab.send("Page.getFrameTree"))["frameTree"]["frame"]
        tab._world, tab.unreachable = World(tab._ask, frame["id"]), frame.get("unreachableUrl", "")
        return tab

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A DevTools call. Raises BrowserError at the deadline or when the page is gone."""
        if self.crashed:
            raise BrowserError(f"The page crashed before {method}.")
        return await within(self.limit, method, self._sent(method, parameters))

    async def _sent(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        while True:
            try:
                answer: dict[str, Any] = await self._cdp.send(method, parameters)
                return answer
            except PlaywrightError as error:
                if NOT_ACTIVE not in error.message:  # one document is just replacing another
                    raise
            await self.change(0.05)

    async def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        return await self.send(method, **parameters)

    async def run(self, expression: str) -> Any:
        """The value of `expression` in the page's own world. Raises Moved on another document."""
        return await self._on_page(evaluate(self._ask, expression))

    async def _on_page(self, answer: Awaitable[T]) -> T:
        world = self._world
        try:
            return await answer
        except PlaywrightError as error:
            if is_gone(error) or self.page.is_closed():
                raise BrowserError("The page was closed.") from error
            world.id = None
            raise Moved(error.message) from error

    async def has_closed_root(self, point: Any) -> bool:
        """Whether a closed shadow root lies under a point of the viewport."""
        try:
            found = await self._world.call("under", *point, value=False)
            if not (id_ := found.get("objectId")):
                return False
            node = (await self.send("DOM.describeNode", objectId=id_))["node"]
        except PlaywrightError as error:
            raise Moved(error.message) from error
        return any(root.get("shadowRootType") == "closed" for root in node.get("shadowRoots", ()))

    async def call(self, name: str, *arguments: object) -> Any:
        """A function of snapshot.js or act.js on JSON arguments, in the frame that it is for."""
        if frame := await self._frames.find(name, arguments):
            return await frame.act(name, *arguments)
        call = self._on_page(self._world.call(name, *arguments))
        if name not in READING or self._world.id is None:
            return await call
        _, answer = await asyncio.gather(self._listen(), call)
        return answer

    async def read(self) -> PageSnapshot:
        """The page now, with its frames. Marks mean its elements until the next call."""
        page: PageSnapshot = await self.call("snapshot", TEXT_LIMIT)
        await self._frames.read(page, Frame(self._cdp.send, self._world.frame, self._world.id))
        return page

    async def _listen(self) -> None:
        """Let our world know which elements listen to clicks, before the call that is sent next."""
        with suppress(PlaywrightError, BrowserError):  # the call itself fails, if the page is gone
            await evaluate(self._ask, LISTENERS, includeCommandLineAPI=True)

    async def goto(self, url: str, patience: float | None = None) -> None:
        """Load a page until its document and its history entry are there, for at most `patience` milliseconds. On a
        busy machine the entry comes later, and a history cleared in between would keep the page before."""
        before = await self._entry()
        await self.page.goto(url, wait_until="commit", timeout=patience)
        with suppress(TimeoutError):  # a page can go back at once by itself
            async with asyncio.timeout(1):
                while await self._entry() == before:
                    await self.change(0.05)

    async def _entry(self) -> int:
        """Id of the current entry of the navigation history."""
        history = await self.send("Page.getNavigationHistory")
        return int(history["entries"][history["currentIndex"]]["id"])

    async def rest(self, options: dict[str, Any]) -> dict[str, Any]:
        """Wait until the page's own work is done (`rest` of rest.js). Raises Moved when a navigation begins: until it
        commits, Chromium may hold back the old document's timers."""
        answer: dict[str, Any] = await self._run_until_navigation(self.call("rest", options))
        return answer

    async def has_missed(self, mark: int) -> bool:
        """Whether the last click on a mark was kept from what had come to its place. False once a navigation begins."""
        with suppress(Moved):
            return bool((await self._run_until_navigation(self.call("hasMissed", mark))).get("missed"))
        return False

    async def finish(self) -> str:
        """End the wait for this page, rested or not: what is under way is not waited for again. Return what a reader
        must know of it, such as `shows "Saving…"`, or nothing."""
        self.loaded = False
        self.traffic.rest()
        with suppress(Moved, BrowserError):
            return str(await self.call("finish"))
        return ""

    async def _run_until_navigation(self, call: Awaitable[T]) -> T:
        still = asyncio.ensure_future(call)
        try:
            while not (still.done() or self.navigating):
                self._changed.clear()
                event = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({still, event}, return_when=asyncio.FIRST_COMPLETED)
                event.cancel()
            if not still.done():
                raise Moved("A navigation has begun.")
            return still.result()
        finally:
            still.cancel()

    @property
    def loops(self) -> bool:
        """Whether it has gone to one address so often in this wait that it does so for ever."""
        return max(self.visits.values(), default=0) >= LOOP

    async def stop(self) -> None:
        """Stop a page that loads itself for ever, with a whole document there: the next one runs no scripts."""
        self._whole.clear()
        await self.send("Emulation.setScriptExecutionDisabled", value=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5 if self.navigating else 0):
                await self._whole.wait()
        await self.send("Page.stopLoading")
        await self.send("Emulation.setScriptExecutionDisabled", value=False)

    async def jpeg(self) -> bytes:
        """The viewport as an encoded picture."""
        shot = await self.send("Page.captureScreenshot", format="jpeg", quality=JPEG_QUALITY, optimizeForSpeed=True)
        return base64.b64decode(shot["data"])

    # What it is doing

    @property
    def navigating(self) -> bool:
        """Whether its main frame waits for a document, or for that document's DOM."""
        frame = self._world.frame
        requested = self._requested.get(frame, -inf)
        return self._committed or frame in self._loading or _clock() < max(requested + REQUEST_GRACE, self._due)

    @property
    def opening(self) -> bool:
        """Whether this page has asked for a tab that is still to come."""
        return self.opened_at is not None and _clock() - self.opened_at < OPEN_GRACE

    def notice(self, sentence: str) -> None:
        """Report a sentence with the next snapshot, if there are not too many."""
        if len(self.notices) < NOTICES:
            self.notices.append(sentence)
        elif len(self.notices) == NOTICES:
            self.notices.append("More than that is not reported.")

    def expect_navigation(self) -> None:
        """Expect a navigation from outside the page, for which the page sends no event."""
        self._requested[self._world.frame] = _clock()

    def wake(self) -> None:
        """Ends `change`."""
        self._changed.set()

    async def change(self, seconds: float) -> None:
        """Wait for the next event of loading, at most so long."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # Events

    def _on_crash(self) -> None:
        self.crashed = True
        self.wake()

    def _on_request(self, request: Request) -> None:
        if request.is_navigation_request():
            (self.posted.discard if request.method == "GET" else self.posted.add)(request.url)

    def _on_failed(self, request: Request) -> None:
        if request.resource_type == "document":
            self.reason = request.failure or ""
        if REFUSED in (request.failure or ""):
            self.refused.add(urlsplit(request.url).netloc)

    async def _on_dialog(self, dialog: Dialog) -> None:
        leaving, key = dialog.type == "beforeunload", (dialog.type, dialog.message)
        accepts = key in self.accepted
        if not leaving:
            done = "accepted" if accepts else "dismissed"
            more = " (do the same again to accept it)" if dialog.type in {"confirm", "prompt"} and not accepts else ""
            words = page_words(" ".join(dialog.message.split()), WORDS)  # a line of its own would be a notice
            self.notice(f'The page showed a {dialog.type} dialog, {done}: "{words}"{more}')
            if not accepts:
                self.dismissed.add(key)
        with suppress(BrowserError, PlaywrightError):  # the page may be gone, and its dialog with it
            try:
                answer = dialog.accept(dialog.default_value) if leaving or accepts else dialog.dismiss()
                await within(self.limit, "dialog.dismiss", answer)
            except PlaywrightError as error:
                self.stuck = self.navigating and NOT_ACTIVE in error.message
                self.wake()

    def _on_download(self, download: Download) -> None:
        name, url = (page_words(words, WORDS) for words in (download.suggested_filename, download.url))
        self._requested.clear()
        self.downloaded = True
        self.notice(f"A download was refused: {name} from {url}")

    def _on_chooser(self) -> None:
        if not self.uploading:
            self.notice("The page asked for a file. " + ("Upload one to that element." if self.uploads else NO_UPLOADS))

    def _on_requested(self, event: dict[str, Any]) -> None:
        if event["disposition"] == "currentTab" and not event["url"].startswith("javascript:"):
            self._requested[event["frameId"]] = _clock()
            if event["frameId"] == self._world.frame:
                self.leaving_for = event["url"]
            self.wake()

    def _on_scheduled(self, event: dict[str, Any]) -> None:
        if event["delay"] <= SOON and event["frameId"] == self._world.frame and event["url"] != self.page.url:
            self._due = _clock() + event["delay"] + REQUEST_GRACE
            self.wake()

    def _on_navigating(self, event: dict[str, Any]) -> None:
        if event["navigationType"] not in {"sameDocument", "historySameDocument"}:
            self._loading.add(event["frameId"])
            self._requested.pop(event["frameId"], None)
            self.wake()
            if event["frameId"] == self._world.frame:
                self._due = -inf
                self.visits[re.sub(r"[?#].*|\d", "", event["url"])] += 1

    def _on_navigated(self, event: dict[str, Any]) -> None:
        frame = event["frame"]
        if "parentId" not in frame:
            self._world = World(self._ask, frame["id"])
            self.unreachable = frame.get("unreachableUrl", "")
            self._committed = True
            self._loading = {frame["id"]}
            self.loaded = self.traffic.waiting = True
            self.traffic.forget()
        self.wake()

    def _on_dom(self, _: dict[str, Any]) -> None:
        self._whole.set()
        if self._committed:
            self._on_frame_stopped(self._world.frame)

    def _on_window(self, event: dict[str, Any]) -> None:
        self.opened_at = _clock()
        self.opened_url = event["url"]

    def _on_frame_stopped(self, frame: str) -> None:
        if frame == self._world.frame:
            self._committed = False
        self._loading.discard(frame)
        self._requested.pop(frame, None)
        self.wake()
