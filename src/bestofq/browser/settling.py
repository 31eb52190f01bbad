"""What a page waits for: the requests that an act or a load began, and which of them never end.

`rest.js` knows the page's own clocks, animations and changes. This module knows its requests.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from urllib.parse import urlsplit

from playwright.async_api import Page, Request, Response, WebSocket

PULSE = files("bestofq.browser").joinpath("pulse.js").read_text("utf-8")
"""The script that counts timers in the page's own world; best run before the page's own scripts."""
RESTLESS = 1.2  # seconds that repeated requests, pictures and other sites' parts are waited for
UNANSWERED = 2.5  # seconds that repeated requests are waited for while the act has changed nothing
OFTEN = 3  # requests of one kind that are polling
CONTENT = frozenset({"fetch", "xhr", "script", "document"})  # waited for in full
DRAWN = frozenset({"image", "stylesheet", "font"})  # waited for a little
INSTANT = frozenset({"fetch", "xhr", "image"})  # waited for on a page that answers at once
_COUNTED = re.compile(
    r"analytics|doubleclick|adservice|adsystem|googletag|syndication|telemetry|sentry|hotjar|mixpanel|amplitude"
    r"|[/_.-](beacon|collect|track(ing)?|metrics|pixel|heartbeat|keepalive|ads?|log)([/?_.-]|$)"
)
_POLLED = re.compile(
    r"[/_.-](long-?poll(ing)?|poll(ing)?|events?|stream|sse|live|notifications?|presence)([/?_.-]|$)|socket\.io"
)


class Traffic:
    """The requests of a page since it last came to rest. `wake` is called when one ends or begins."""

    def __init__(self, page: Page, wake: Callable[[], None]) -> None:
        self._page = page
        self._wake = wake
        self._open: dict[Request, bool] = {}  # begun since the last rest → whether it is a stream
        self._times: Counter[tuple[str, ...]] = Counter()  # of each kind of request since the last rest
        self._idle: Counter[tuple[str, ...]] = Counter()  # of each kind while nobody waited
        self._polls: set[tuple[str, ...]] = set()
        self._sockets: dict[WebSocket, bool] = {}  # open → whether it was used since the last rest
        self.waiting = False  # the session waits for the page
        self.begun_at = self.ended_at = -1.0  # when a request last began, and ended
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_end)
        page.on("requestfailed", self._on_end)
        page.on("response", self._on_response)
        page.on("websocket", self._on_socket)

    def find_open(self, age: float, *, changed: bool, instant: bool) -> list[Request]:
        """The requests to wait for, `age` seconds after the act or the load."""
        if instant:
            return [request for request in self._open if request.resource_type in INSTANT]
        return [request for request in self._open if age < self._patience(request, changed)]

    def _patience(self, request: Request, changed: bool) -> float:
        """Seconds that a request is waited for."""
        kind, key = request.resource_type, _key(request)
        if key in self._polls or self._open[request] or _COUNTED.search(request.url.lower()):
            return 0
        foreign = _site(request.url) != _site(self._page.url) and kind not in {"fetch", "xhr"}
        if kind in DRAWN or foreign or _POLLED.search(request.url.lower()):
            return RESTLESS
        if self._times[key] >= OFTEN:
            return RESTLESS if changed else UNANSWERED
        return float("inf")

    @property
    def streaming(self) -> bool:
        """Whether a stream of messages was begun, or a socket used, since the last rest."""
        return any(self._open.values()) or any(self._sockets.values())

    @property
    def lively(self) -> bool:
        """Whether workers, sockets or streams may change the page unseen."""
        return bool(self._sockets or self._page.workers or any(self._open.values()))

    def rest(self) -> None:
        """What is under way now is not waited for again: the next act does not cause it."""
        self._polls |= {key for key, times in self._times.items() if times >= OFTEN}
        self._polls |= {key for key, times in self._idle.items() if times >= OFTEN}
        self._open.clear()
        self._times.clear()
        self._sockets = dict.fromkeys(self._sockets, False)
        self.waiting = False

    def forget(self) -> None:
        """Forget the document before."""
        self._open.clear()
        self._times.clear()
        self._idle.clear()
        self._sockets.clear()

    def _on_request(self, request: Request) -> None:
        kind = request.resource_type
        main = request.is_navigation_request() and request.frame == self._page.main_frame
        if kind == "eventsource":
            self._open[request] = True
        elif kind in CONTENT | DRAWN and not main:
            key = _key(request)
            (self._times if self.waiting else self._idle)[key] += 1
            self._open[request], self.begun_at = False, asyncio.get_running_loop().time()
            self._wake()

    def _on_response(self, response: Response) -> None:
        if response.request in self._open and "event-stream" in response.headers.get("content-type", ""):
            self._open[response.request] = True
            self._wake()

    def _on_end(self, request: Request) -> None:
        if self._open.pop(request, None) is not None:
            if request.method == "POST":  # what it asked for may come by a socket
                self._sockets = dict.fromkeys(self._sockets, True)
            self.ended_at = asyncio.get_running_loop().time()
            self._wake()

    def _on_socket(self, socket: WebSocket) -> None:
        def use(_: bytes | str) -> None:
            if socket in self._sockets:
                self._sockets[socket] = True

        self._sockets[socket] = True
        socket.on("framesent", use)
        socket.on("close", self._on_close)

    def _on_close(self, socket: WebSocket) -> None:
        self._sockets.pop(socket, None)


def describe(requests: list[Request]) -> str:
    """The requests in a few words: "2 requests (GET /api/orders, …)"."""
    first = f"{requests[0].method} {urlsplit(requests[0].url).path[:60]}"
    return f"{len(requests)} request{'s' * (len(requests) > 1)} ({first}{', …' * (len(requests) > 1)})"


def _key(request: Request) -> tuple[str, ...]:
    """What requests of one loop have in common."""
    return request.method, *(re.sub(r"\d{6,}", "", text) for text in (request.url, request.post_data or ""))  # times


def _site(url: str) -> str:
    """The registrable domain of an address, roughly."""
    host = urlsplit(url).hostname or ""
    return host if re.fullmatch(r"[\d.]+|.*:.*", host) else ".".join(host.split(".")[-2:])
