"""Where an action leads: navigations, dialogs, tabs, downloads and the way back."""

from typing import Any

import pytest

from bestofq.browser.config import BrowserConfig
from bestofq.core.actions import Click, GoBack, Goto

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_chain_of_navigations_is_followed_to_its_end(site: Any, click: Any) -> None:
    site.page("<script>location.href = '/slow/end'</script>", "/hop")
    site.page("", "/moved", Location="/hop")
    assert (await click("<a href=/moved>go</a>")).title == "/slow/end"


@pytest.mark.slow
async def test_a_page_that_never_answers_is_an_error(site: Any, session: Any, read: Any) -> None:
    await read("<a href=/never>go</a>")
    assert await session.act(Click(mark=1)) == "The page did not finish loading within 2 s."
    assert (
        await session.act(Goto(url=f"{site.host}/never/x")) == f"http://{site.host}/never/x did not answer within 2 s."
    )
    site.delay.set()
    assert (await session.snapshot()).text == "go [1]"


async def test_a_page_may_load_as_long_as_its_patience(
    site: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.reset(site.page("<p>here"))
    monkeypatch.setattr(BrowserConfig, "deadline", 0.1)
    assert await session.act(Goto(url=f"http://{site.host}/slow")) is None


async def test_dialogs_are_dismissed_and_reported(session: Any, click: Any) -> None:
    seen = await click("<button onclick=\"b.textContent = confirm('Sure?')\" id=b>b</button>")
    assert seen.text == "false [1]"
    assert seen.notices == ('The page showed a confirm dialog, dismissed: "Sure?" (do the same again to accept it)',)
    assert (await session.snapshot()).notices == ()


async def test_a_new_tab_is_adopted_and_going_back_closes_it(click: Any, do: Any) -> None:
    seen = await click("<title>first</title><a href=/slow/tab target=_blank>go</a>")
    assert seen.tabs == ("/slow/tab", "first")
    assert seen.notices == ("A new tab was opened and is now the current one.",)
    assert (await do(GoBack())).tabs == ("first",)


async def test_a_tab_that_closes_itself(site: Any, session: Any, do: Any, read: Any) -> None:
    site.page("<title>pop</title><button onclick='window.close()'>x</button>", "/pop")
    await read("<title>first</title><button onclick=\"window.open('/pop')\">go</button>")
    await session.act(Click(mark=1))
    assert (await session.snapshot()).title == "pop"
    assert (await do(Click(mark=1))).title == "first"


async def test_a_tab_that_closes_at_once(do: Any, read: Any) -> None:
    opens = "const tab = window.open('about:blank'); setTimeout(() => tab.close(), {later})"
    for later in (0, 2, 5, 15, 40) * 2:
        await read(f'<title>first</title><button onclick="{opens.format(later=later)}">go</button>')
        assert "first" in (await do(Click(mark=1))).tabs


async def test_downloads_are_refused(site: Any, session: Any, click: Any) -> None:
    seen = await click("<a href=/file>get</a> <a href=/empty>nothing</a>")
    assert seen.text == "get [1] nothing [2]"
    assert seen.notices == (f"A download was refused: report.pdf from http://{site.host}/file",)
    assert await session.act(Click(mark=2)) is None
    seen = await click("<a href=/file target=_blank>get</a>")
    assert ["report.pdf" in notice for notice in seen.notices] == [True]
    assert len(seen.tabs) == 1
    assert (await session.act(Goto(url=f"{site.host}/file")) or "").endswith("it is a download, or empty.")


async def test_a_page_that_leads_on_by_itself_is_followed(site: Any, click: Any) -> None:
    site.page("<meta http-equiv=refresh content='1;url=/there'><p>You are being redirected", "/way")
    assert (await click("<a href=/way>go</a>")).url.endswith("/there")


async def test_a_screenshot_is_the_viewport(site: Any, session: Any) -> None:
    await session.reset(site.page("<body style='background:red'>"))
    shot = (await session.snapshot(screenshot=True)).screenshot
    assert (shot.media_type, shot.width, shot.height) == ("image/jpeg", 1280, 720)
    assert shot.data[:3] == b"\xff\xd8\xff"
    assert (await session.snapshot(screenshot=True)).screenshot.sha256 == shot.sha256


async def test_going_back_within_a_document(site: Any, click: Any, do: Any) -> None:
    assert (await click("<button onclick=\"history.pushState(0, '', '/b')\">b</button>")).url.endswith("/b")
    assert (await do(GoBack())).url == f"http://{site.host}/"


async def test_going_back_to_a_page_that_no_longer_loads(site: Any, session: Any) -> None:
    await session.reset(site.page("<p>first", Cache_Control="no-store"))
    assert await session.act(Goto(url=site.page("<p>second", "/second"))) is None
    site.page("", Location="http://127.0.0.1:9/")
    assert (await session.act(GoBack())).startswith("http://127.0.0.1:9/ cannot be loaded: net::ERR_")
