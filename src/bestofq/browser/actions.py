"""Carry out an action on a page by real mouse and keyboard events, on the element of its mark or point.

What cannot be done raises Impossible with one sentence, which the agent reads as `Observation.error`.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import TimeoutError as PlaywrightTimeout

from bestofq.browser.config import TEXT_LIMIT
from bestofq.browser.snapshot import observe
from bestofq.browser.tab import NO_UPLOADS, Tab, within
from bestofq.core.actions import Action, Clear, Click, Other, Press, Scroll, Submit, Targeted, Upload, Wait, Write
from bestofq.core.errors import BrowserError
from bestofq.core.observation import UNREADABLE, Observation

May = Callable[[Action, Observation], Awaitable[bool]]
"""What is about to be pressed, and the page now → whether it may be pressed. False if somebody had to agree first: then
the page must be read again. Raises Impossible if it may not."""
KEYS = 12  # the last characters of a text are typed by keys, for pages that listen to them; the others are inserted
CHOOSER_SECONDS = 2.0  # that a click has to open a file chooser
AIMS = 3  # at an element that moves away from the click
LOOKS = 5  # at a page that changes while somebody decides
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Impossible(Exception):
    """Why an action cannot be carried out, in one sentence."""


async def perform(tab: Tab, action: Action, may: May | None = None) -> None:
    """Carry out one action that is not a navigation. The session settles the page. `may` decides at the press."""
    match action:
        case Click():
            await _click(tab, action, may)
        case Upload():
            await _upload(tab, action, may)
        case Press():
            if action.mark is not None:
                await _ask(tab, "focus", action.mark)
            for stroke in action.keys.split():
                if may is not None and stroke.rpartition("+")[2] in {"Enter", "Space"}:
                    await _look_again(tab, action, may, "pressEnter")
                await within(tab.limit, f"press({stroke})", tab.page.keyboard.press(stroke))
        case Write():
            await write(tab, action, action.text, may)
            if action.enter:
                if may is not None:
                    await _look_again(tab, action, may, "pressEnter")
                await within(tab.limit, "press(Enter)", tab.page.keyboard.press("Enter"))
        case Clear():
            await write(tab, action, "")
        case Submit():
            if may is not None:
                await _look_again(tab, action, may, "press", _ref(action), None)
            await _ask(tab, "submit", _ref(action))
        case Scroll():
            across, down = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[action.direction]
            moved = await _ask(tab, "scroll", across * action.pages, down * action.pages, action.mark)
            if moved.get("wheel"):
                width, height = moved["wheel"]
                await within(tab.limit, "mouse.move", tab.page.mouse.move(width / 2, height / 2))
                turn = tab.page.mouse.wheel(across * action.pages * width, down * action.pages * height)
                await within(tab.limit, "mouse.wheel", turn)
            if moved.get("box"):
                tab.notice(f"Scrolled {moved['box']}, {moved['left']} more of its heights can be scrolled.")
        case Wait():
            await tab.call("change", action.seconds * 1000)
        case Other():
            raise Impossible(f"{action.text} is an action of another tool.")
        case _:
            raise BrowserError(f"`{action.kind}` is not an action of the browser; the environment carries it out.")


async def _click(tab: Tab, action: Click | Upload, may: May | None) -> None:
    for _ in range(AIMS):
        at = await _ask(tab, "clickPoint", _ref(action))
        if at.get("download"):
            tab.expect_navigation()
        if may is None:
            await within(tab.limit, "click", tab.page.mouse.click(at["x"], at["y"]))
        else:
            await within(tab.limit, "mouse.move", tab.page.mouse.move(at["x"], at["y"]))
            await _look_again(tab, action, may, "press", _ref(action), (at["x"], at["y"]))
            await within(tab.limit, "mouse.down", tab.page.mouse.down())
            await within(tab.limit, "mouse.up", tab.page.mouse.up())
        if action.mark is None or not await tab.has_missed(action.mark):
            return
    raise Impossible(f"Element [{action.mark}] moves away from each click.")


async def _upload(tab: Tab, action: Upload, may: May | None) -> None:
    """Click what opens a file chooser, and choose the file."""
    if tab.uploads is None:
        raise Impossible(NO_UPLOADS)
    folder = tab.uploads.resolve()
    file = (folder / action.file).resolve()
    if not (file.is_file() and file.is_relative_to(folder)):
        names = sorted(path.name for path in folder.glob("*") if path.is_file())
        raise Impossible(f'There is no file "{action.file}" to upload; there are {", ".join(names[:20]) or "none"}.')
    tab.uploading = True
    try:
        async with tab.page.expect_file_chooser(timeout=CHOOSER_SECONDS * 1000) as chooser:
            await _click(tab, action, may)
        await within(tab.limit, "set_files", (await chooser.value).set_files(file))
    except PlaywrightTimeout as error:
        raise Impossible("The click opened no file chooser; name the element that does.") from error
    finally:
        tab.uploading = False


async def _look_again(
    tab: Tab, action: Click | Submit | Write | Press | Upload, may: May, name: str, *arguments: object
) -> None:
    """Read the page at the press, after hovering and typing, until `may` has no more questions. Raises Impossible if
    the action no longer means what would be pressed, or if it is not allowed."""
    for _ in range(LOOKS):
        answer = await _ask(tab, name, *arguments, TEXT_LIMIT)
        at = arguments[1] if name == "press" else None
        if answer.get("hidden") or (at is not None and await tab.has_closed_root(at)):
            answer["page"]["elements"].append([UNREADABLE, "", None, (0, 0, 0, 0), [], None, None, None, None])
            answer["mark"] = len(answer["page"]["elements"])
        seen, mark = observe(answer["page"]), answer["mark"]
        if mark is None and action.mark is not None and not isinstance(action, Press):
            raise Impossible(f"Element [{action.mark}] is no longer what it was.")
        pressed: Action = action
        if isinstance(action, Press):
            pressed = action.model_copy(update={"mark": mark})
        elif mark is not None:
            pressed = action.model_copy(update={"mark": mark, "point": None, "target": None})
        if isinstance(pressed, Write) and mark is not None and seen.elements[mark - 1].value is None:
            pressed = Click(mark=mark)  # the page has moved the focus from the field to a button
        if await may(pressed, seen):
            return
    raise Impossible("The page changes each time it is looked at; nothing was pressed.")


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


async def write(tab: Tab, action: Targeted, text: str, may: May | None = None) -> None:
    """Replace a field's content as a human would, so that the page's listeners notice. Choose in a list."""
    field = await _ask(tab, "fill", _ref(action), text, may is None)
    if may is not None and (options := field.get("options")) is not None:
        chosen = action.model_copy(update={"text": options, "enter": False})
        await _look_again(tab, chosen, may, "press", _ref(action), None)  # type: ignore[arg-type]
        field = await _ask(tab, "fill", _ref(action), text)
    if not field.get("ready"):
        return
    if field["drawn"]:
        await within(tab.limit, "press(Control+a)", tab.page.keyboard.press("Control+a"))
    if field["rich"] and "\n" in text and (await _ask(tab, "paste", text))["taken"]:
        return
    text = text if field["multiline"] else " ".join(text.splitlines())
    typed = text[-KEYS:].rpartition("\n")[2]  # a line break by key may send the text
    if before := text.removesuffix(typed):
        await within(tab.limit, "insert_text", tab.page.keyboard.insert_text(before))
    if typed:
        await within(tab.limit, "type", tab.page.keyboard.type(typed))
        swallows = field["before"] != text and (await _ask(tab, "content", _ref(action)))["content"] == field["before"]
        if swallows:  # the page prevents keys
            await within(tab.limit, "insert_text", tab.page.keyboard.insert_text(text))
    if not text and field["before"]:
        await within(tab.limit, "press(Delete)", tab.page.keyboard.press("Delete"))


def address(url: str) -> str:
    """A web address with its scheme. Raises Impossible for what the browser may not open."""
    text = url.strip()
    try:
        if "://" not in text and not text.startswith(("about:", "data:", "javascript:", "file:")):
            host = urlsplit(f"//{text}").hostname or ""
            text = f"{'http' if host in _LOOPBACK else 'https'}://{text}"
        parts = urlsplit(text)
        readable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 0) >= 0
    except ValueError:  # a bracket that does not close, a port above 65,535
        readable = False
    if not readable:
        raise Impossible(f"{url} is no web address; give one that begins with http:// or https://.")
    return text
