"""The isolated world of our scripts, and frames of other origins: each is read in a world of its own.

Their words and elements are put into the page's, and their marks follow. A frame that does not answer stays one line,
`(frame: https://origin)`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError

from bestofq.browser.config import TEXT_LIMIT
from bestofq.browser.snapshot import ROOM, SOURCE, PageSnapshot
from bestofq.core.errors import BrowserError

WORLD = "bestofq"
SCRIPTS = {"source": SOURCE, "worldName": WORLD, "runImmediately": True}  # sent once, they are compiled once
MOST = 8  # frames that are read of one page
SECONDS = 2.0  # that a frame has to answer, and half of what all of a page have
MARKS = {"clickPoint": 0, "hasMissed": 0, "fill": 0, "content": 0, "submit": 0, "focus": 0, "press": 0, "scroll": 2}
"""Which argument of a call is a mark."""
GONE = {"error": "The frame of this element has changed or does not answer."}

LOST = (PlaywrightError, TimeoutError, BrowserError)  # a frame is gone, hangs, or its script engine fails
Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


async def evaluate(send: Send, expression: str, *, value: bool = True, **how: int | bool) -> Any:
    """Return the value of an expression, or without `value` a handle of it. BrowserError if the script fails."""
    asked = {"expression": expression, "awaitPromise": True, "returnByValue": value, **how}
    answer = await send("Runtime.evaluate", asked)
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        reason = details.get("exception", {}).get("description", details["text"])
        raise BrowserError(f"The page's script engine failed: {reason.splitlines()[0]}")
    return answer["result"].get("value") if value else answer["result"]


class World:
    """Our scripts' isolated world in the document of a frame, found by its first use."""

    def __init__(self, send: Send, frame: str, id: int | None = None) -> None:
        self.frame, self.id, self._send = frame, id, send

    async def call(self, name: str, *arguments: object, value: bool = True) -> Any:
        """Call a function of snapshot.js or act.js. BrowserError if it fails, PlaywrightError on another document."""
        expression = f"{WORLD}.{name}({', '.join(map(json.dumps, arguments))})"
        if self.id is None:
            made = await self._send("Page.createIsolatedWorld", {"frameId": self.frame, "worldName": WORLD})
            self.id = made["executionContextId"]
        return await evaluate(self._send, expression, value=value, contextId=self.id)


class Frame(World):
    """The world in a frame, which has `SECONDS` for a call.

    Args:
        outer: the frame around it; None: it is the page's own.
        index: of it among the frames of other origins in `outer`.
    """

    def __init__(
        self, send: Send, frame: str, id: int | None = None, outer: "Frame | None" = None, index: int = 0
    ) -> None:
        super().__init__(send, frame, id)
        self.marks, self._outer, self._index = range(0), outer, index

    async def call(self, name: str, *arguments: object, value: bool = True) -> Any:
        """Raises one of `LOST` if the document is gone."""
        async with asyncio.timeout(SECONDS):
            return await super().call(name, *arguments, value=value)

    async def act(self, name: str, *arguments: Any) -> Any:
        """The same, with points of the page's viewport. An error if the document is gone."""
        with suppress(*LOST):
            if name == "press" and arguments[1]:
                at = await self._move_in({"x": arguments[1][0], "y": arguments[1][1]})
                if "error" in at:
                    return at
                arguments = (arguments[0], (at["x"], at["y"]), *arguments[2:])
            answer = await self.call(name, *arguments)
            return await self._move_out(answer) if name == "clickPoint" else answer
        return GONE

    async def _move_out(self, at: dict[str, Any]) -> dict[str, Any]:
        """Where a point of the document lies in the page's viewport, or why nowhere."""
        if self._outer is None or "error" in at:
            return at
        return await self._outer._move_out(await self._outer.call("outwards", self._index, at["x"], at["y"]))

    async def _move_in(self, at: dict[str, Any]) -> dict[str, Any]:
        """The point of the document that lies at a point of the page's viewport, or why none does."""
        if self._outer is None:
            return at
        around = await self._outer._move_in(at)
        if "error" in around:
            return around
        inner: dict[str, Any] = await self._outer.call("inwards", self._index, around["x"], around["y"])
        return inner

    def is_in(self, outer: "Frame", index: int) -> bool:
        return (self._outer, self._index) == (outer, index)

    async def find_inner(self, index: int) -> str:
        """The id of a frame in it."""
        element = await self.call("frame", index, value=False)
        node = await self._send("DOM.describeNode", {"objectId": element["objectId"]})
        return str(node["node"]["frameId"])


class ForeignFrames:
    """The frames of other origins of a tab's page, at its last snapshot."""

    def __init__(self, page: Page, cdp: CDPSession) -> None:
        self._page, self._cdp = page, cdp
        self._sessions: dict[Any, CDPSession] = {}  # by Playwright's frame, of those in other processes
        self._processes: dict[str, CDPSession] = {}  # by the id of each frame
        self._root: Frame | None = None
        self._frames: list[Frame] = []

    async def read(self, page: PageSnapshot, root: Frame) -> None:
        """Put the frames into what was seen of the page."""
        self._frames, self._root = [], root
        if page["frames"]:
            with suppress(*LOST):
                async with asyncio.timeout(2 * SECONDS):
                    self._processes = await self._find_processes()
                    await self._read_frames(page, page, root)

    async def _read_frames(self, page: PageSnapshot, seen: PageSnapshot, around: Frame) -> None:
        """Put the frames of a document into what was `seen` of it, and their elements into the page's."""
        for index in range(len(seen["frames"])):
            words = ""
            with suppress(*LOST, KeyError):  # it is lost, or just changes its process
                if len(self._frames) < MOST and ROOM in seen["text"]:
                    words = await self._read_frame(page, seen, around, index)
            seen["text"] = seen["text"].replace(ROOM, words, 1)

    async def _read_frame(self, page: PageSnapshot, seen: PageSnapshot, around: Frame, index: int) -> str:
        """Return the words of one, and add its elements to the page's."""
        id = await around.find_inner(index)
        frame, before = Frame(self._processes[id].send, id, outer=around, index=index), len(page["elements"])
        how = {"before": before, "place": seen["frames"][index], "size": page["size"]}
        inner: PageSnapshot = await frame.call("snapshot", TEXT_LIMIT, how)
        if inner["url"].startswith("chrome-error:"):
            return ""
        page["elements"] += inner["elements"]
        frame.marks = range(before + 1, len(page["elements"]) + 1)
        self._frames.append(frame)
        await self._read_frames(page, inner, frame)
        return f"\n{inner['text']}\n(end of the frame)" if inner["text"] else ""

    async def _find_processes(self) -> dict[str, CDPSession]:
        """The DevTools session of each frame, by its id."""
        for frame in self._page.frames[1:]:
            if frame not in self._sessions:
                with suppress(PlaywrightError):  # it is in the process of the frame around it
                    self._sessions[frame] = await self._page.context.new_cdp_session(frame)
                    await self._sessions[frame].send("Page.enable")
                    await self._sessions[frame].send("Page.addScriptToEvaluateOnNewDocument", SCRIPTS)
        found: dict[str, CDPSession] = {}
        for key, session in [*self._sessions.items(), (None, self._cdp)]:
            try:
                found |= dict.fromkeys(_ids((await session.send("Page.getFrameTree"))["frameTree"]), session)
            except PlaywrightError:  # the frame is gone, or in another process
                self._sessions.pop(key, None)
        return found

    async def find(self, name: str, arguments: tuple[Any, ...]) -> Frame | None:
        """The frame that a call of snapshot.js or act.js is for; None: the page itself."""
        if not self._frames:
            return None
        if name in MARKS:
            mark = arguments[MARKS[name]] if len(arguments) > MARKS[name] else None
            return next((frame for frame in self._frames if mark in frame.marks), None)
        return await self._find_focus() if name in {"paste", "pressEnter"} else None

    async def _find_focus(self) -> Frame | None:
        focused, at = None, self._root
        with suppress(*LOST):
            while at and (index := (await at.call("focusedFrame"))["index"]) >= 0:
                at = focused = next((frame for frame in self._frames if frame.is_in(at, index)), None)
        return focused


def _ids(tree: dict[str, Any]) -> list[str]:
    """Of a frame and of all in it."""
    return [tree["frame"]["id"], *(id for child in tree.get("childFrames", ()) for id in _ids(child))]
