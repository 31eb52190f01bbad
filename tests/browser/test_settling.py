"""The wait after an action, and what happens beside it: dialogs, tabs, downloads."""

import asyncio
from typing import Any

import pytest

from bestofq.browser.actions import perform
from bestofq.browser.config import BrowserConfig
from bestofq.core.actions import Click, GoBack, Goto

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_results_fetched_by_a_click_are_there(site: Any, click: Any) -> None:
    site.page("fetched", "/slow/data")
    fetch = "fetch('/slow/data').then(async (r) => out.append(await r.text()))"
    assert (await click(f'<button onclick="{fetch}">b</button><p id=out>')).text.endswith("fetched")


def pending(later: str) -> str:
    return (
        f"<button onclick=\"out.textContent = ''; later()\">b</button><p id=out></p><script>"
        f"const put = () => out.textContent = 'put', later = () => {{ {later} }}; later()</script>"
    )


SOON = {
    "timer": "setTimeout(put)",
    "later timer": "setTimeout(put, 20)",
    "fetch": "fetch('/quick').then(put)",
    "fetch after a timer": "setTimeout(() => fetch('/quick').then(put), 20)",
    "frame": "requestAnimationFrame(put)",
    "idle": "requestIdleCallback(put)",
    "port": "const {port1, port2} = new MessageChannel(); port1.onmessage = put; port2.postMessage(1)",
    "message": "onmessage = put; postMessage(1)",
    "task": "scheduler.postTask(put, { priority: 'background' })",
    "picture": "const i = new Image(); i.onload = put; i.src = '/star.svg?' + Math.random()",
    "in view": "new IntersectionObserver(put).observe(out)",
}


@pytest.mark.slow
@pytest.mark.parametrize("later", SOON.values(), ids=SOON)
async def test_what_a_page_does_soon_is_there(site: Any, session: Any, later: str) -> None:
    """However early the page is known to rest: no change that is pending is missed, neither of loads nor of clicks."""
    site.pages["/star.svg"] = ("<svg xmlns='http://www.w3.org/2000/svg'/>", {"Content-Type": "image/svg+xml"})
    page = site.page(pending(later))
    await session.reset(page)
    for action in (Goto(url=page), Click(mark=1)) * 3:
        assert await session.act(action) is None
        assert (await session.snapshot()).text.endswith("put"), action


ELSEWHERE = {
    "new worker": "new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = put",
    "database": "indexedDB.open('base').onsuccess = put",
    "file": "const file = new FileReader(); file.onload = put; file.readAsText(new Blob(['x']))",
    "bitmap": "createImageBitmap(new ImageData(9, 9)).then(put)",
    "digest": "crypto.subtle.digest('SHA-256', new Uint8Array(9)).then(put)",
}


@pytest.mark.slow
@pytest.mark.parametrize("later", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_the_quiet_wait_is_for_what_no_timer_foretells(
    site: Any, session: Any, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers and databases take what time the machine leaves them; whoever waits longer for them is not cut short."""
    monkeypatch.setattr(BrowserConfig, "quiet", 0.3)
    page = site.page(pending(later))
    await session.reset(page)
    for action in (Goto(url=page), Click(mark=1)):
        assert await session.act(action) is None
        assert (await session.snapshot()).text.endswith("put"), action


QUIET = 0.1
LIVELY = {
    "worker": "new Worker(URL.createObjectURL(new Blob(['onmessage = () => {}'])))",
    "socket": "new WebSocket('ws://' + location.host + '/never/socket')",
    "stream": "new EventSource('/never/stream')",
    "frame": "document.body.append(document.createElement('iframe'))",
    "interval": "setInterval(() => {}, 15)",
    "timer": "onclick = () => setTimeout(() => {}, 90)",
    "transition": "onclick = () => out.animate({ opacity: [0, 1] }, 500)",
}


async def waits(session: Any, times: int, pause: float) -> list[float]:
    """Seconds from a click on nothing until the page has settled, `pause` seconds after what was before."""
    clock, found = asyncio.get_running_loop().time, []
    for _ in range(times):
        await asyncio.sleep(pause)
        begun = clock()  # before the click: the page counts from it, however late its answer comes here
        await perform(session.tab, Click(point=(9, 9)))
        await session.settle()
        found.append(clock() - begun)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("lively", LIVELY.values(), ids=LIVELY)
async def test_where_something_may_come_the_clock_decides(site: Any, session: Any, lively: str) -> None:
    session.config = session.config.model_copy(update={"quiet": QUIET})
    await session.reset(site.page(f"<p id=out>quiet<script>{lively}</script>"))
    assert min(await waits(session, 2, 0.5 if lively == LIVELY["interval"] else 0)) >= QUIET


@pytest.mark.slow
async def test_where_nothing_is_pending_the_wait_is_shorter(site: Any, session: Any) -> None:
    """Neither what the page did while it loaded nor what an earlier action set off is pending any more."""
    session.config = session.config.model_copy(update={"quiet": QUIET})
    once = "onclick = () => { onclick = null; setTimeout(() => out.textContent = 'put', 20) }"
    await session.reset(site.page(f"<p id=out>quiet<script>setTimeout(() => out.textContent = ''); {once}</script>"))
    assert (await waits(session, 1, 0))[0] >= QUIET
    assert min(await waits(session, 3, 0.5)) < QUIET


@pytest.mark.parametrize(
    "put",
    ["const i = new Image(); i.src = '/slow/star.svg'; out.append(i)", "out.style.content = 'url(/slow/star.svg)'"],
)
async def test_pictures_put_in_by_a_click_are_there(site: Any, session: Any, put: str) -> None:
    picture = "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='20'><rect width='9' height='9'/></svg>"
    site.pages["/slow/star.svg"] = (picture, {"Content-Type": "image/svg+xml"})
    await session.reset(site.page(f'<button onclick="{put}">b</button><p><a href=# id=out aria-label=star></a>'))
    await session.snapshot()
    assert await session.act(Click(mark=1)) is None
    _, star = (await session.snapshot()).elements
    assert (star.name, star.box.width) == ("star", 20)


async def test_a_chain_of_navigations_is_followed_to_its_end(site: Any, click: Any) -> None:
    site.page("<script>location.href = '/slow/end'</script>", "/hop")
    site.page("", "/moved", Location="/hop")
    assert (await click("<a href=/moved>go</a>")).title == "/slow/end"


@pytest.mark.slow
async def test_a_restless_page_is_left_after_the_limit(site: Any, session: Any) -> None:
    await session.reset(site.page("<p id=p></p><script>setInterval(() => p.textContent = Math.random(), 5)</script>"))
    clock = asyncio.get_running_loop().time
    begun = clock()
    assert await session.act(Click(point=(5, 5))) is None
    assert 0.9 < clock() - begun < 4


@pytest.mark.slow
async def test_a_page_that_never_answers_is_an_error(site: Any, session: Any) -> None:
    await session.reset(site.page("<a href=/never>go</a>"))
    await session.snapshot()
    assert await session.act(Click(mark=1)) == "The page did not finish loading within 2 s."
    assert (
        await session.act(Goto(url=f"{site.host}/never/x")) == f"http://{site.host}/never/x did not answer within 2 s."
    )
    site.delay.set()
    assert (await session.snapshot()).text == "go [1]"


async def test_dialogs_are_dismissed_and_reported(session: Any, click: Any) -> None:
    seen = await click("<button onclick=\"b.textContent = confirm('Sure?')\" id=b>b</button>")
    assert seen.text == "false [1]"
    assert seen.notices == ('The page showed a confirm dialog, dismissed: "Sure?"',)
    assert (await session.snapshot()).notices == ()


async def test_a_new_tab_is_adopted_and_going_back_closes_it(session: Any, click: Any) -> None:
    seen = await click("<title>first</title><a href=/slow/tab target=_blank>go</a>")
    assert seen.tabs == ("/slow/tab", "first")
    assert seen.notices == ("A new tab was opened and is now the current one.",)
    assert await session.act(GoBack()) is None
    assert (await session.snapshot()).tabs == ("first",)


async def test_a_tab_that_closes_itself(site: Any, session: Any) -> None:
    site.page("<title>pop</title><button onclick='window.close()'>x</button>", "/pop")
    await session.reset(site.page("<title>first</title><button onclick=\"window.open('/pop')\">go</button>"))
    await session.snapshot()
    await session.act(Click(mark=1))
    assert (await session.snapshot()).title == "pop"
    assert await session.act(Click(mark=1)) is None
    assert (await session.snapshot()).title == "first"


@pytest.mark.parametrize("later", [0, 2, 5, 15, 40])
async def test_a_tab_that_closes_at_once(site: Any, session: Any, later: int) -> None:
    opens = f"const tab = window.open('about:blank'); setTimeout(() => tab.close(), {later})"
    for _ in range(3):
        await session.reset(site.page(f'<title>first</title><button onclick="{opens}">go</button>'))
        await session.snapshot()
        assert await session.act(Click(mark=1)) is None
        assert "first" in (await session.snapshot()).tabs


async def test_downloads_are_refused(site: Any, session: Any, click: Any) -> None:
    seen = await click("<a href=/file>get</a> <a href=/empty>nothing</a>")
    assert seen.text == "get [1] nothing [2]"
    assert seen.notices == (f"A download was refused: report.pdf from http://{site.host}/file",)
    assert await session.act(Click(mark=2)) is None
    assert (await session.act(Goto(url=f"{site.host}/file")) or "").endswith("it is a download, or empty.")


async def test_a_screenshot_is_the_viewport(site: Any, session: Any) -> None:
    await session.reset(site.page("<body style='background:red'>"))
    shot = (await session.snapshot(screenshot=True)).screenshot
    assert (shot.media_type, shot.width, shot.height) == ("image/jpeg", 1280, 720)
    assert shot.data[:3] == b"\xff\xd8\xff"
    assert (await session.snapshot(screenshot=True)).screenshot.sha256 == shot.sha256


async def test_going_back_within_a_document(site: Any, session: Any, click: Any) -> None:
    assert (await click("<button onclick=\"history.pushState(0, '', '/b')\">b</button>")).url.endswith("/b")
    assert await session.act(GoBack()) is None
    assert (await session.snapshot()).url == f"http://{site.host}/"


async def test_going_back_to_a_page_that_no_longer_loads(site: Any, session: Any) -> None:
    await session.reset(site.page("<p>first", Cache_Control="no-store"))
    assert await session.act(Goto(url=site.page("<p>second", "/second"))) is None
    site.page("", Location="http://127.0.0.1:9/")
    assert (await session.act(GoBack())).startswith("http://127.0.0.1:9/ cannot be loaded: net::ERR_")
