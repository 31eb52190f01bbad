"""How each action is carried out: by real mouse and keyboard events, on the element its mark or point names.

What cannot be done raises Impossible with one sentence; the session hands it to the agent as `Observation.error`.
"""

import asyncio
from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from bestofq.browser.config import BrowserConfig
from bestofq.browser.deadline import is_gone, within
from bestofq.browser.guard import REFUSED, allows, refusal
from bestofq.browser.tab import Tab
from bestofq.core.actions import (
    Action,
    Clear,
    Click,
    GoBack,
    Goto,
    Refresh,
    Restart,
    Scroll,
    Submit,
    Targeted,
    Wait,
    Write,
)
from bestofq.core.errors import BrowserError

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_KEYS: dict[str, dict[str, Any]] = {
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Delete": {"key": "Delete", "code": "Delete", "windowsVirtualKeyCode": 46},
}


class Impossible(Exception):
    """Why an action cannot be carried out, in one sentence."""


class Session(Protocol):
    """What actions need of `session.Session`."""

    start_url: str
    hosts: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def config(self) -> BrowserConfig: ...

    @property
    def tab(self) -> Tab: ...

    async def close_tab(self) -> bool: ...


async def perform(session: Session, action: Action) -> None:
    """Carries out one action; settling is the session's."""
    tab = session.tab
    match action:
        case Click():
            await click(tab, await _ask(tab, "clickPoint", _ref(action)))
        case Write():
            await write(tab, action, action.text)
            if action.enter:
                await press(tab, "Enter")
        case Clear():
            await write(tab, action, "")
        case Submit():
            await _ask(tab, "submit", _ref(action))
        case Scroll():
            across, down = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[action.direction]
            await _ask(tab, "scroll", across * action.pages, down * action.pages)
        case Goto():
            await goto(session, address(action.url))
        case Restart():
            await goto(session, session.start_url)
        case GoBack():
            await go_back(session)
        case Refresh():
            if tab.page.url.partition("#")[0] in tab.posted:
                raise Impossible("The page answers a form that was sent; to refresh it would send the form again.")
            await _navigate(session, "page.reload", tab.page.reload(wait_until="commit", timeout=_limit(session)))
        case Wait():
            await tab.call("change", action.seconds * 1000)
        case _:
            raise BrowserError(f"`{action.kind}` is not an action of the browser; the environment carries it out.")


def _ref(action: Targeted) -> int | tuple[float, float]:
    if action.mark is not None:
        return action.mark
    if action.point is not None:
        return (action.point.x, action.point.y)
    if action.refusal is not None:
        raise Impossible(action.refusal)
    raise Impossible(f'There is no localizer to find "{action.target}"; name a mark.')


async def _ask(tab: Tab, name: str, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = await tab.call(name, *arguments)
    if "error" in answer:
        raise Impossible(answer["error"])
    return answer


async def click(tab: Tab, at: dict[str, Any]) -> None:
    """Moves the mouse there and presses its left button once."""
    x, y = at["x"], at["y"]
    await asyncio.gather(
        tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y),
        tab.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1),
        tab.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1),
    )


async def press(tab: Tab, key: str) -> None:
    """Presses and releases one key."""
    await asyncio.gather(
        tab.send("Input.dispatchKeyEvent", type="keyDown" if "text" in _KEYS[key] else "rawKeyDown", **_KEYS[key]),
        tab.send("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in _KEYS[key].items() if k != "text"}),
    )


async def write(tab: Tab, action: Targeted, text: str) -> None:
    """Replaces a field's content as a human would, so that the page's own listeners hear of it; chooses in a list."""
    field = await _ask(tab, "fill", _ref(action), text)
    if not field.get("ready"):
        return
    if not field["multiline"]:
        text = " ".join(text.splitlines())
    if text:
        await tab.send("Input.insertText", text=text)
    elif not field["empty"]:
        await press(tab, "Delete")


def address(url: str) -> str:
    """A web address, its scheme added where it is missing. Raises Impossible for what the browser may not open."""
    text = url.strip()
    if "://" not in text and not text.startswith(("about:", "data:", "javascript:", "file:")):
        host = urlsplit(f"//{text}").hostname or ""
        text = f"{'http' if host in _LOOPBACK else 'https'}://{text}"
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Impossible(f"{url} is no web address; give one that begins with http:// or https://.")
    return text


async def goto(session: Session, url: str) -> None:
    """Loads a page in the current tab."""
    if not allows(session.hosts, url):
        raise Impossible(refusal(url, session.hosts))
    page = session.tab.page
    await _navigate(session, f"page.goto({url})", page.goto(url, wait_until="commit", timeout=_limit(session)), url)


async def begin_at(session: Session, url: str) -> None:
    """Loads a page in the current tab as the first of its history (Chromium keeps 50 pages at most)."""
    await goto(session, url)
    await session.tab.send("Page.resetNavigationHistory")
    session.tab.base_entry = (await session.tab.send("Page.getNavigationHistory"))["currentIndex"]


async def go_back(session: Session) -> None:
    """To the previous page of this tab; a tab that was opened by another is closed."""
    tab = session.tab
    history = await tab.send("Page.getNavigationHistory")
    if history["currentIndex"] <= tab.base_entry:
        if await session.close_tab():
            return
        if not session.earlier:
            raise Impossible("There is no page to go back to.")
        url, session.earlier = session.earlier[-1], session.earlier[:-1]
        await begin_at(session, url)
        return
    entry = history["entries"][history["currentIndex"] - 1]["id"]
    tab.expect_navigation()
    await tab.send("Page.navigateToHistoryEntry", entryId=entry)


async def _navigate(session: Session, call: str, navigation: Any, url: str = "") -> None:
    try:
        await within(session.config.deadline, call, navigation)
    except PlaywrightTimeout as error:
        await session.tab.send("Page.stopLoading")
        limit = session.config.navigation
        raise Impossible(f"{url or 'The page'} did not answer within {limit:g} s.") from error
    except PlaywrightError as error:
        if is_gone(error):
            raise
        raise Impossible(failure(url or session.tab.page.url, error.message, session.hosts)) from error


def failure(url: str, reason: str, hosts: tuple[str, ...]) -> str:
    """Why a navigation came to nothing, from Chromium's own words."""
    if REFUSED in reason:
        return refusal(url, hosts)
    if "ERR_ABORTED" in reason or "Download is starting" in reason:
        return f"{url} holds nothing to show: it is a download, or empty."
    if "interrupted by another navigation" in reason:
        return f"{url} was left for another page while it was loading."
    code = next(
        (word for word in reason.replace("\n", " ").split() if word.startswith("net::")), reason.splitlines()[0]
    )
    return f"{url} cannot be loaded: {code}."


def _limit(session: Session) -> float:
    return session.config.navigation * 1000
