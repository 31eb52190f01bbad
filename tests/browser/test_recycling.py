"""An episode sees nothing of the one before; and what becomes of crashes and limits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium
from bestofq.browser.config import BrowserConfig
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Click, GoBack, Goto, Wait
from bestofq.core.errors import BrowserError, SetupError

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITE = """<title>w</title><p id=out></p><script>
  document.cookie = "c=1"; localStorage.l = sessionStorage.s = window.name = "1";
  addEventListener("pagehide", () => { localStorage.late = sessionStorage.late = document.cookie = "late=1" });
  const open_ = new Promise((done) => { const r = indexedDB.open("db"); r.onsuccess = done; r.onupgradeneeded = done });
  Promise.all([open_, caches.open("k"), navigator.serviceWorker.register("/sw.js"),
    navigator.storage.getDirectory().then((d) => d.getFileHandle("f", {create: true})), fetch("/cached")])
    .then(() => navigator.serviceWorker.ready).then(() => out.append("written"));
</script>"""
READ = """<p id=out></p><script>
  const found = [document.cookie, ...Object.keys(localStorage), ...Object.keys(sessionStorage)];
  found.push(window.name, history.length);
  (async () => {
    found.push((await indexedDB.databases()).length, (await caches.keys()).length,
      (await navigator.serviceWorker.getRegistrations()).length);
    for await (const name of (await navigator.storage.getDirectory()).keys()) found.push(name);
    await fetch("/cached");
    out.append(JSON.stringify(found));
  })()
</script>"""


async def test_nothing_is_left_for_the_next_episode(site: Any, browser: Browser) -> None:
    site.pages["/sw.js"] = ("", {"Content-Type": "text/javascript"})
    site.page("x", "/cached", Cache_Control="max-age=1000")
    session = BrowserSession(browser)
    await session.reset(site.page(WRITE, "/write"), [site.host])
    for _ in range(20):
        if (await session.snapshot()).text == "written":
            break
        await session.act(Wait(seconds=0.5))
    assert (await session.snapshot()).text == "written"
    await session.act(Goto(url=f"{site.host}/other"))
    cached = site.count("/cached")
    await session.reset(site.page(READ, "/read"), [site.host])
    assert (await session.snapshot()).text == '["","",2,0,0,0]'  # history: the blank page and this one
    assert site.count("/cached") == cached + 1
    assert site.requests[-2][1] == ""
    assert await session.act(GoBack()) == "There is no page to go back to."
    await session.close()


@pytest.mark.parametrize("path", ["/count", "/slow/count"])
async def test_what_a_popup_has_stored_is_gone(site: Any, browser: Browser, path: str) -> None:
    """Even that of one that comes when the episode is over."""
    site.page(
        "<title>n</title><script>document.title = localStorage.n = 1 + Number(localStorage.n || 0)</script>", path
    )
    start, session = site.page("<p>start", "/start"), BrowserSession(browser)
    for _ in range(2):
        await session.reset(start)
        assert (await session.snapshot()).text == "start"
        await session.evaluate(f"void open('http://other.test:{site.port}{path}')")
        if path == "/count":
            await session.settle()
            assert (await session.snapshot()).title == "1"
    await session.reset(start)
    await asyncio.sleep(0.5)
    await session.settle()
    assert (await session.snapshot()).tabs == (start,)
    await session.close()


async def test_sessions_do_not_see_each_other(site: Any, browser: Browser) -> None:
    one, two = BrowserSession(browser), BrowserSession(browser)
    url = site.page("<p id=p></p><script>p.textContent = localStorage.n = 1 + Number(localStorage.n || 0)</script>")
    for session in (one, two):
        await session.reset(url)
        assert (await session.snapshot()).text == "1"
    await one.close()
    await two.close()


async def test_chromium_is_started_again_after_a_crash(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrowserConfig, "deadline", 3)  # until which the call waits that crashes the page
    async with Browser.launch(BrowserConfig(load_patience=3)) as browser:
        session = BrowserSession(browser)
        await session.reset(site.page("<p>up"))
        with pytest.raises(BrowserError):
            await session.tab.send("Browser.crash")
        with pytest.raises(BrowserError):
            await session.snapshot()
        await session.reset(site.page("<p>up again"))
        assert (await session.snapshot()).text == "up again"
        with pytest.raises(BrowserError):
            await session.tab.send("Page.crash")
        await session.reset(site.page("<p>and again"))
        assert (await session.snapshot()).text == "and again"
        await session.close()


async def test_a_hanging_page_meets_the_deadline(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrowserConfig, "deadline", 1.5)
    async with Browser.launch(BrowserConfig(load_patience=1)) as browser:
        session = BrowserSession(browser)
        await session.reset(site.page("<button onclick='for (;;);'>b</button>"))
        await session.snapshot()
        with pytest.raises(BrowserError, match=r"did not finish .* within 1\.5 s"):
            await session.act(Click(mark=1))
        await session.reset(site.page("<p>fine"))
        assert (await session.snapshot()).text == "fine"
        await session.close()


async def test_a_start_page_that_does_not_load(site: Any, browser: Browser) -> None:
    session = BrowserSession(browser)
    site.close()
    with pytest.raises(BrowserError, match=r"The start page did not load: .*ERR_CONNECTION_REFUSED"):
        await session.reset(f"http://{site.host}/")
    with pytest.raises(BrowserError, match="reset it first"):
        await session.snapshot()


async def test_finding_chromium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("BESTOFQ_CHROMIUM", str(program))
    with pytest.raises(SetupError, match="BESTOFQ_CHROMIUM"):
        find_chromium()
    program.chmod(0o755)
    assert find_chromium() == program
    monkeypatch.delenv("BESTOFQ_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() == program
    shell = tmp_path / "chromium-headless-shell"
    shell.write_text("#!/bin/sh\n")
    shell.chmod(0o755)
    assert (find_chromium(), find_chromium(headless=False)) == (shell, program)
    monkeypatch.setenv("PATH", "")
    assert find_chromium() is None
    monkeypatch.setenv("BESTOFQ_CHROMIUM", str(tmp_path))
    with pytest.raises(SetupError):
        find_chromium()
