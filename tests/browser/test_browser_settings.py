"""Settings of the browser reach the pages; a browser that runs already serves, and goes on when it has."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from one_room import as_set

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium
from bestofq.browser.config import BrowserConfig
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Goto
from bestofq.core.errors import ConfigError, SetupError

pytestmark = pytest.mark.asyncio(loop_scope="session")

TELLS = """<p id=out></p><script>
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const told = [navigator.userAgent, navigator.language, zone, innerWidth, devicePixelRatio, document.cookie];
  out.append(told.join(" | "));
  document.cookie = "seen=1";
</script>"""


async def told(browser: Browser, url: str) -> str:
    session = BrowserSession(browser)
    await session.reset(url)
    text = (await session.snapshot()).text
    await session.close()
    return text


async def test_a_page_is_told_what_is_set(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    login = {"name": "login", "value": "ours", "domain": "127.0.0.1", "path": "/", "expires": -1}
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"cookies": [{**login, "httpOnly": False, "secure": False, "sameSite": "Lax"}]}))
    config = BrowserConfig(locale="de-DE", width=700, storage=state, arguments=("--user-agent=Our own/1.0",))
    async with Browser.launch(config) as browser:
        for _ in range(2):  # each episode begins with the login, and with nothing of the one before
            text = await told(browser, site.page(TELLS))
            assert text == "Our own/1.0 | de-DE | Asia/Tokyo | 700 | 1 | login=ours"


async def test_a_proxy_fetches_for_all_hosts_or_none(site: Any, browser: Browser) -> None:
    site.page("<p>fetched by the proxy</p>", "http://shop.test/")
    proxied = as_set(browser, BrowserConfig(proxy=f"http://{site.host}"))
    assert await told(proxied, "http://shop.test/") == "fetched by the proxy"
    with pytest.raises(ConfigError, match="would fetch from any host"):
        await BrowserSession(proxied).reset("http://shop.test/", ["shop.test"])


@pytest_asyncio.fixture(loop_scope="session")
async def running(tmp_path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A Chromium of the user's, and its address."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium on PATH")
    words = ("--headless", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={tmp_path}")
    process = await asyncio.create_subprocess_exec(
        str(program), *words, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    async with asyncio.timeout(30):
        while not (found := re.search(rb"listening on (ws://\S+)", await process.stderr.readline())):
            assert process.returncode is None
    yield process, found[1].decode()
    os.killpg(process.pid, signal.SIGKILL)  # what Debian installs is a script around it
    await process.wait()


async def test_a_browser_that_runs_already_is_used_and_left_running(
    site: Any, running: tuple[asyncio.subprocess.Process, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, address = running
    monkeypatch.setenv("OUR_BROWSER", address)  # as of one that is hosted: its address holds a key
    config = BrowserConfig(cdp="$OUR_BROWSER", locale="fr-FR")
    for _ in range(2):
        async with Browser.launch(config) as browser:
            session = BrowserSession(browser)
            await session.reset(site.page(TELLS), [site.host])
            assert "| fr-FR |" in (await session.snapshot()).text
            refused = await session.act(Goto(url="http://other.test/"))
            assert "not among the task's allowed hosts" in (refused or "")
            await session.close()
    assert process.returncode is None


async def test_no_browser_at_the_address_whose_key_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "secret")
    monkeypatch.setattr(BrowserConfig, "deadline", 5)
    with pytest.raises(SetupError, match=r"no browser answers at http://127") as raised:
        async with Browser.launch(BrowserConfig(cdp="http://127.0.0.1:9?key=$OUR_KEY")):
            pass
    assert "secret" not in str(raised.value)


async def test_logins_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="storage_state"):
        async with Browser.launch(BrowserConfig(storage=tmp_path / "none.json")):
            pass
