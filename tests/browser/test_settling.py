"""The wait after an action."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import pytest

import bestofq as bq
from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Click, Goto
from bestofq.core.observation import Point

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timed]


async def test_results_fetched_by_a_click_are_there(site: Any, click: Any) -> None:
    site.page("fetched", "/slow/data")
    fetch = "fetch('/slow/data').then(async (r) => out.append(await r.text()))"
    assert (await click(f'<button onclick="{fetch}">b</button><p id=out>')).text.endswith("fetched")


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
    # what others answer, by neither a timer nor a request
    "new worker": "new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = put",
    "database": "indexedDB.open('base').onsuccess = put",
    "file": "const file = new FileReader(); file.onload = put; file.readAsText(new Blob(['x']))",
    "bitmap": "createImageBitmap(new ImageData(9, 9)).then(put)",
    "digest": "crypto.subtle.digest('SHA-256', new Uint8Array(9)).then(put)",
}


@pytest.mark.slow
@pytest.mark.parametrize("later", SOON.values(), ids=SOON)
async def test_what_a_page_does_soon_is_there(site: Any, session: Any, later: str, do: Any) -> None:
    """However early the page is known to rest: no change that is pending is missed, neither of loads nor of clicks."""
    site.pages["/star.svg"] = ("<svg xmlns='http://www.w3.org/2000/svg'/>", {"Content-Type": "image/svg+xml"})
    page = site.page(
        f"<button onclick=\"out.textContent = ''; later()\">b</button><p id=out></p><script>"
        f"const put = () => out.textContent = 'put', later = () => {{ {later} }}; later()</script>"
    )
    await session.reset(page)
    for action in (Goto(url=page), Click(mark=1)) * 3:
        assert (await do(action)).text.endswith("put"), action


async def seconds_of(awaitable: Awaitable[Any]) -> float:
    begun = time.perf_counter()
    await awaitable
    return time.perf_counter() - begun


SLEEP = "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms)), out = document.querySelector('#out');"
PUT = "const put = (text) => { out.textContent = String(text).startsWith('Sav') ? text : 'Order 77' };"
CLICKED = {
    "timer": "setTimeout(put, 900, 'Order 77')",
    "debounced": "clearTimeout(window.t); window.t = setTimeout(() => fetch('/slow/a').then(() => put()), 300)",
    "two fetches": "fetch('/slow/a').then(() => fetch('/slow/b')).then(() => put())",
    "slow fetch": "fetch('/slow/a').then(() => fetch('/slow/b')).then(() => sleep(600)).then(() => put())",
    "polling": "let n = 0; const ask = () => fetch('/quick').then(() => ++n < 5 ? setTimeout(ask, 200) : put()); ask()",
    "import": "import('/slow/module.js').then((module) => put(module.default))",
    "script": "const s = document.createElement('script'); s.src = '/slow/old.js'; document.body.append(s)",
    "animation": "out.animate({ opacity: [0, 1] }, 700).onfinish = () => put()",
    "transition": "out.style = 'transition: margin .6s'; out.style.marginLeft = '9px'; out.ontransitionend = put",
    "frames": "let n = 0; const f = () => ++n < 40 ? requestAnimationFrame(f) : put(); f()",
    "written": "(async () => { for (const part of ['Order ', '7', '7']) { out.append(part); await sleep(350) } })()",
    "frame": "const f = document.createElement('iframe'); f.src = '/slow/inner'; setTimeout(() => out.append(f), 300)",
    "busy": "out.ariaBusy = true; out.textContent = '…'; setTimeout(() => { out.ariaBusy = null; put() }, 1600)",
    "Streamlit": "out.innerHTML = '<p data-test-script-state=running>…'; setTimeout(put, 1600)",
    "Dash": "out.innerHTML = '<p data-dash-is-loading=true>…'; setTimeout(put, 1600)",
    "Shiny": "const { classList } = out.getRootNode().documentElement; classList.add('shiny-busy'); "
    "out.textContent = '…'; setTimeout(() => { classList.remove('shiny-busy'); put() }, 1600)",
    "Gradio": "out.innerHTML = '<p data-testid=status-tracker><b class=progress-text>processing | 0.2/3.1s'; "
    "setTimeout(put, 1600)",
    "saving": "put('Saving…'); setTimeout(put, 1600, 'Order 77')",
    "worker": "new Worker(URL.createObjectURL(new Blob(['setTimeout(postMessage, 400, 1)']))).onmessage = () => put()",
    "pressed": "event.target.className = 'pressed'; "
    "new Worker(URL.createObjectURL(new Blob(['setTimeout(postMessage, 400, 1)']))).onmessage = () => put()",
    "stream": "new EventSource('/slow/stream').onmessage = (event) => put(event.data)",
    "shadow": "const s = out.attachShadow({ mode: 'open' }); setTimeout(() => { s.textContent = 'Order 77' }, 600)",
}
"""What a click sets off, after which the page shows "Order 77"."""
LOADED = {
    "drawn late": "setTimeout(() => { document.body.innerHTML = 'Order 77' }, 800)",
    "fetched": "fetch('/slow/a').then(() => { document.body.innerHTML = 'Order 77' })",
    "skeleton": "document.body.innerHTML = '<div class=skeleton>&nbsp;</div>'; "
    "setTimeout(() => { document.body.innerHTML = 'Order 77' }, 1600)",
    "skeleton by id": "document.body.innerHTML = '<p data-testid=appSkeleton style=height:20px><p>Orders'; "
    "setTimeout(() => { document.body.innerHTML = 'Order 77' }, 1600)",
    "loading": "document.body.innerHTML = 'Loading'; setTimeout(() => { document.body.innerHTML = 'Order 77' }, 1600)",
}
"""The scripts of pages that draw themselves later."""


async def test_the_answer_to_a_click_is_waited_for(site: Any, browser: Browser) -> None:
    site.page("Order 77", "/slow/inner")
    site.pages["/slow/module.js"] = ("export default 'Order 77'", {"Content-Type": "text/javascript"})
    site.pages["/slow/old.js"] = ("out.textContent = 'Order 77'", {"Content-Type": "text/javascript"})
    site.pages["/slow/stream"] = ("data: Order 77\n\n", {"Content-Type": "text/event-stream"})

    few = asyncio.Semaphore(3)  # all at once, a busy machine is too late for what is waited for a second

    async def answer(name: str) -> str:
        page = f"<button>Go</button><p id=out></p><script>{SLEEP}{PUT}"
        url = site.page(
            f"{page}document.querySelector('button').onclick = () => {{ {CLICKED[name]} }}</script>",
            f"/{name.replace(' ', '-')}",
        )
        async with few:
            session = BrowserSession(browser)
            await session.reset(url)
            await session.snapshot()
            assert await session.act(Click(mark=1)) is None
            seen = await session.snapshot()
            await session.close()
        return seen.text.removeprefix("Go [1]\n")

    answers = await asyncio.gather(*map(answer, CLICKED))
    assert dict(zip(CLICKED, answers, strict=True)) == dict.fromkeys(CLICKED, "Order 77")


async def test_a_page_that_draws_itself_is_waited_for(site: Any, browser: Browser) -> None:
    async def text(name: str) -> str:
        session = BrowserSession(browser)
        await session.reset(site.page(f"<body></body><script>{LOADED[name]}</script>", f"/{name.replace(' ', '-')}"))
        seen = await session.snapshot()
        await session.close()
        return seen.text

    texts = await asyncio.gather(*map(text, LOADED))
    assert dict(zip(LOADED, texts, strict=True)) == dict.fromkeys(LOADED, "Order 77")


RESTLESS = {
    "clock": "setInterval(() => { out.textContent = Date.now() }, 100)",
    "frames": "const f = () => { out.textContent = Math.random(); requestAnimationFrame(f) }; f()",
    "chain": "const t = () => { out.textContent = Math.random(); setTimeout(t, 50) }; t()",
    "polling": "setInterval(() => fetch('/quick'), 150)",
    "awaited polling": "(async () => { for (;;) { await fetch('/quick'); await sleep(100) } })()",
    "long polling": "fetch('/never/poll')",
    "spinner": "out.animate({ opacity: [0, 1] }, { duration: 900, iterations: Infinity }); out.className = 'spinner'",
    "busy icon": "new Worker('data:,onmessage=0'); out.innerHTML = `<svg><circle class=icon-busy cx=9 cy=9 r=9></svg>`",
    "named after loading": "new Worker('data:,onmessage=0'); out.className = 'lazy-loading'; out.textContent = ''; "
    "out.style.height = '9px'",
    "feed": "setInterval(() => out.append(document.createElement('hr')), 200)",
    "counter": "fetch('/never/collect?page=1')",
    "pushes": "setInterval(() => history.pushState(0, '', '/p' + Math.random()), 5)",
    "reloads": "location.reload()",
}
"""Pages that never rest."""


async def test_restless_pages_are_not_waited_for_long(site: Any, browser: Browser) -> None:
    few = asyncio.Semaphore(3)

    async def check(name: str) -> None:
        page = f"<button>Go</button><p id=out>-</p><script>{SLEEP}{RESTLESS[name]}</script>"
        url = site.page(page, f"/{name.replace(' ', '-')}")
        async with few:
            session = BrowserSession(browser)
            session.config = session.config.model_copy(update={"load_patience": 10.0})
            # 1.2 on a quiet machine, 2.4 if it grows or reloads
            assert await seconds_of(session.reset(url)) < 4, name
            loops = "loads itself again and again" in " ".join((await session.snapshot()).notices)
            assert loops == (name == "reloads")
            assert await seconds_of(session.act(Click(mark=1))) < 3, name
            if name == "clock":  # its answer is waited for nevertheless
                later = "onclick = () => setTimeout(() => document.body.append('Order 77'), 700)"
                await session.evaluate(later)
                await session.act(Click(mark=1))
                assert "Order 77" in (await session.snapshot()).text
            await session.close()

    await asyncio.gather(*map(check, RESTLESS))


async def test_what_is_open_at_the_limit_is_said(session: Any, do: Any, read: Any) -> None:
    session.config = session.config.model_copy(update={"patience": 0.5})
    await read("<button onclick=\"fetch('/never/orders')\">Go</button><p>")
    assert (await do(Click(mark=1))).notices == ("After 0.5 s the page still waits for 1 request (GET /never/orders).",)
    assert await seconds_of(session.act(Click(mark=1))) < 4
    await session.snapshot()
    await session.evaluate("document.querySelector('p').textContent = 'Saving…'; setTimeout(() => {}, 2000)")
    assert 'the page still shows "Saving…"' in " ".join((await do(Click(point=Point(500, 500)))).notices)


async def test_a_site_that_answers_at_once_is_not_waited_for(session: Any, do: Any, read: Any) -> None:
    session.config = session.config.model_copy(update={"settle": "instant"})
    await read("<button onclick='setTimeout(() => b.textContent = 1, 900)'>Go</button><p id=b>")
    assert (await do(Click(mark=1))).text == "Go [1]"


async def test_a_page_of_the_user_s_own_is_waited_for(chromium: Any, site: Any) -> None:
    later = "setTimeout(() => { document.querySelector('p').textContent = 'Order 77' }, 800)"
    page = await chromium.new_page()
    await page.goto(site.page(f'<button onclick="{later}">Go</button><p></p><script>{later}</script>'))
    assert (await bq.observe(page)).text.endswith("Order 77")  # what began before we knew the page
    await page.evaluate("document.querySelector('p').textContent = ''")
    await page.click("button")  # by the user's own hand
    assert (await bq.observe(page)).text.endswith("Order 77")
    await page.evaluate("document.querySelector('p').textContent = ''")
    assert await bq.act(page, Click(mark=1)) is None
    assert (await bq.observe(page)).text.endswith("Order 77")
    await page.close()


async def test_pictures_put_in_by_a_click_are_there(site: Any, do: Any, read: Any) -> None:
    picture = "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='20'><rect width='9' height='9'/></svg>"
    for put in ("const i = new Image(); i.src = '{}'; out.append(i)", "out.style.content = 'url({})'"):
        address = f"/slow/{len(put)}.svg"
        site.pages[address] = (picture, {"Content-Type": "image/svg+xml"})
        button = f'<button onclick="{put.format(address)}">b</button>'
        await read(f"{button}<p><a href=# id=out aria-label=star></a>")
        _, star = (await do(Click(mark=1))).elements
        assert (star.name, star.box.width) == ("star", 20)
