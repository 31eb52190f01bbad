"""A real Chromium and a real site on loopback, shared by this folder's tests."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import pytest_asyncio
from one_room import OneRoom, as_set

from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Action, Click
from bestofq.core.observation import Observation

Reads = Callable[[str], Awaitable[Observation]]
Acts = Callable[[Action], Awaitable[Observation]]


class Site:
    """Pages by path on 127.0.0.1; paths beginning with /slow answer late, /file is a download, /empty a 204."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, dict[str, str]]] = {}
        self.requests: list[tuple[str, str]] = []  # path, cookies
        self.delay = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.requests.append((self.path, self.headers.get("Cookie", "")))
                path = self.path.partition("?")[0]
                if path.startswith("/slow"):
                    site.delay.wait(0.3)
                if path.startswith("/never"):
                    site.delay.wait(5)
                body, headers = site.pages.get(path, (f"<title>{path}</title><p>page {self.path}", {}))
                status = 204 if path == "/empty" else 302 if "Location" in headers else 200
                if path == "/file":
                    headers = {"Content-Disposition": 'attachment; filename="report.pdf"'}
                data = b"" if status == 204 else body.encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    for key, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
                        self.send_header(key, value)
                    self.end_headers()
                    self.wfile.write(data)
                except ConnectionError:
                    self.close_connection = True

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def page(self, body: str, path: str = "/", **headers: str) -> str:
        """Serves `body` at `path` and returns its URL."""
        self.pages[path] = (f"<!doctype html>{body}", {key.replace("_", "-"): value for key, value in headers.items()})
        return f"http://{self.host}{path}"

    def count(self, path: str) -> int:
        return sum(seen.partition("?")[0] == path for seen, _ in self.requests)

    def close(self) -> None:
        """May be called again."""
        self.delay.set()
        self._server.shutdown()
        self._server.server_close()


class Listener(asyncio.DatagramProtocol):
    """Counts who connects (TCP) or sends (UDP) to a port of 127.0.0.1."""

    touched, port = 0, 0

    def datagram_received(self, data: bytes, address: object) -> None:
        self.touched += 1

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.touched += 1
        writer.close()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    async with await asyncio.start_server(made.connected, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        address = ("127.0.0.1", made.port)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: made, local_addr=address)
        yield made
        transport.close()


@pytest.fixture(scope="session")
def browser(browser: Browser) -> Browser:
    return as_set(browser, BrowserConfig(load_patience=2.0))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def room(browser: Browser) -> AsyncIterator[OneRoom]:
    made = OneRoom(browser)
    yield made
    await made.close()


@pytest.fixture
def session(room: OneRoom, browser: Browser) -> BrowserSession:
    room.config = browser.config
    return room


@pytest.fixture
def read(site: Site, session: BrowserSession) -> Reads:
    async def read(body: str) -> Observation:
        """What the session sees of a page."""
        await session.reset(site.page(body))
        return await session.snapshot()

    return read


@pytest.fixture
def do(session: BrowserSession) -> Acts:
    async def do(action: Action) -> Observation:
        """What the session sees after an action that it can carry out."""
        assert await session.act(action) is None
        return await session.snapshot()

    return do


@pytest.fixture
def click(read: Reads, do: Acts) -> Reads:
    async def click(body: str) -> Observation:
        """What the session sees after a click on the first element of a page."""
        await read(body)
        return await do(Click(mark=1))

    return click
