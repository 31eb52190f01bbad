"""An episode reaches its allowed hosts and no other, whatever the page tries."""

import re
from typing import Any

import pytest

from bestofq.browser.guard import allows
from bestofq.core.actions import Click, Goto
from bestofq.core.errors import ConfigError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_nothing_reaches_another_host(site: Any, session: Any, listener: Any, do: Any) -> None:
    evil = f"127.0.0.1:{listener.port}"
    for path in ("/img", "/redirect"):
        site.page("", path, Location=f"http://{evil}/redirected")
    start = site.page(
        f"""<link rel=preconnect href="http://{evil}"><link rel=prefetch href="http://{evil}/p">
        <link rel=stylesheet href="http://other.test:{listener.port}/s.css"><script src="http://{evil}/s.js"></script>
        <img src="http://localhost:{listener.port}/i.png"><img src=/img><iframe src="http://{evil}/f"></iframe>
        <button id=b onclick=go()>go</button><p id=out></p><script>
        const worker = new Worker(URL.createObjectURL(new Blob(["fetch('http://{evil}/w')"])));
        function go() {{
          const socket = new WebSocket("ws://{evil}/ws"); socket.onerror = () => out.append("socket ");
          fetch("http://{evil}/fetch").catch(() => out.append("fetch "));
          navigator.sendBeacon("http://{evil}/beacon");
          const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{evil}"}}]}});
          peer.createDataChannel("x"); peer.createOffer().then((offer) => peer.setLocalDescription(offer));
        }}</script>"""
    )
    await session.reset(start, [site.host])
    await session.snapshot()
    assert set((await do(Click(mark=1))).text.split("\n")[-1].split()) == {"socket", "fetch"}
    refused = f"{evil} is not among the task's allowed hosts ({site.host})."
    assert await session.act(Goto(url=evil)) == refused
    assert await session.act(Goto(url=f"{site.host}/redirect")) is not None
    assert (await session.snapshot()).url == start
    assert site.count("/redirect") == 1
    assert listener.touched == 0


async def test_a_link_to_another_host_leads_back(site: Any, session: Any, listener: Any) -> None:
    start = site.page(f'<a href="http://127.0.0.1:{listener.port}/x">out</a>')
    await session.reset(start, [site.host])
    await session.snapshot()
    told = await session.act(Click(mark=1))
    assert told == f"127.0.0.1:{listener.port} is not among the task's allowed hosts ({site.host})."
    seen = await session.snapshot()
    assert (seen.text, seen.refused) == ("out [1]", (f"127.0.0.1:{listener.port}",))
    assert listener.touched == 0


async def test_hosts_by_name(site: Any, session: Any) -> None:
    site.page("<p>here")
    await session.reset(f"http://allowed.test:{site.port}/", ["allowed.test"])
    assert (await session.snapshot()).text == "here"
    assert await session.act(Goto(url=f"http://other.test:{site.port}/")) is not None
    with pytest.raises(ConfigError, match=re.escape("other.test")):
        await session.reset(f"http://other.test:{site.port}/", ["allowed.test"])
    with pytest.raises(ConfigError, match="<local>"):
        await session.reset("about:blank", ["<local>"])


@pytest.mark.parametrize(
    ("hosts", "url", "expected"),
    [
        ((), "https://any.example/", True),
        (("a.test",), "https://a.test/x", True),
        (("a.test",), "https://b.a.test/", False),
        (("*.a.test",), "https://b.a.test/", True),
        (("a.test:81",), "http://a.test/", False),
        (("a.test:443",), "https://A.test/", True),
        (("[::1]:80",), "http://[::1]/", True),
        (("a.test",), "https://a.test.evil.example/", False),
        (("a.test",), "https://a.test@evil.example/", False),
        (("a.test",), "file:///etc/passwd", False),
    ],
)
async def test_the_rule(hosts: tuple[str, ...], url: str, expected: bool) -> None:
    assert allows(hosts, url) is expected
