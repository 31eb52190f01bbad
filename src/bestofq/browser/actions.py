"""How an action is carried out on a page: by real mouse and keyboard events, on the element its mark or point names.

What cannot be done raises Impossible with one sentence; the session hands it to the agent as `Observation.error`.
"""

from typing import Any
from urllib.parse import urlsplit

from bestofq.browser.tab import Tab, within
from bestofq.core.actions import Action, Clear, Click, Other, Scroll, Submit, Targeted, Wait, Write
from bestofq.core.errors import BrowserError

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Impossible(Exception):
    """Why an action cannot be carried out, in one sentence."""


async def perform(tab: Tab, action: Action) -> None:
    """Carries out one action that is not a navigation; settling is the session's."""
    match action:
        case Click():
            at = await _ask(tab, "clickPoint", _ref(action))
            await within(tab.limit, "click", tab.page.mouse.click(at["x"], at["y"]))
        case Write():
            await write(tab, action, action.text)
            if action.enter:
                await within(tab.limit, "press(Enter)", tab.page.keyboard.press("Enter"))
        case Clear():
            await write(tab, action, "")
        case Submit():
            await _ask(tab, "submit", _ref(action))
        case Scroll():
            across, down = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[action.direction]
            await _ask(tab, "scroll", across * action.pages, down * action.pages)
        case Wait():
            await tab.call("change", action.seconds * 1000)
        case Other():
            raise Impossible(f"{action.text} is an action of another tool.")
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


async def write(tab: Tab, action: Targeted, text: str) -> None:
    """Replaces a field's content as a human would, so that the page's own listeners hear of it; chooses in a list."""
    field = await _ask(tab, "fill", _ref(action), text)
    if not field.get("ready"):
        return
    if not field["multiline"]:
        text = " ".join(text.splitlines())
    if text:
        await within(tab.limit, "insert_text", tab.page.keyboard.insert_text(text))
    elif not field["empty"]:
        await within(tab.limit, "press(Delete)", tab.page.keyboard.press("Delete"))


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
