"""The report in a real Chromium, opened as a file."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page
from report_nouns import PROVENANCE, decision, page, picture, record, task
from sqlalchemy import insert, select

from bestofq.core.decision import Step
from bestofq.reports.diagnosis import Options
from bestofq.reports.figures import CurvePoint
from bestofq.reports.html import write_report
from bestofq.reports.rows import Selection
from bestofq.store import database
from bestofq.store.schema import EPISODES, STEPS
from bestofq.store.store import Store

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=2"><!--'


@dataclass
class Opened:
    """A page and what it asked for or complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def text(self, selector: str) -> str:
        return await self.page.locator(selector).first.inner_text()


@asynccontextmanager
async def opened(chromium: Browser, path: Path, fragment: str = "") -> AsyncIterator[Opened]:
    async with asyncio.timeout(120), await chromium.new_page(viewport={"width": 1300, "height": 900}) as page:
        it = Opened(page)
        it.page.set_default_timeout(30_000)
        it.page.on("request", lambda request: it.requests.append(request.url))
        it.page.on("console", lambda message: it.complaints.append(message.text))
        it.page.on("pageerror", lambda error: it.complaints.append(str(error)))
        await it.page.goto(path.as_uri() + fragment)
        yield it


async def test_a_hostile_page_is_shown_as_text_and_nothing_runs(chromium: Browser, tmp_path: Path) -> None:
    seen = page(0, HOSTILE, picture()).model_copy(update={"error": HOSTILE, "notices": (HOSTILE,)})
    with Store.open(tmp_path / "store") as store:
        await store.begin_run(HOSTILE, {}, PROVENANCE)
        step = Step(index=0, observation=seen, decision=decision(words=HOSTILE))
        what = task(HOSTILE, goal=HOSTILE)
        await record(store, HOSTILE, what, 0, [step], "failure", run=HOSTILE, reason=HOSTILE)
        path = write_report(
            store,
            tmp_path / "out" / "report.html",
            Selection(baseline=HOSTILE),
            Options(curve=[CurvePoint(episodes=10, success=0.5, agent=HOSTILE)]),
            title=HOSTILE,
        )
    async with opened(chromium, path) as it:
        assert await it.text("h1") == HOSTILE
        assert await it.text("#replay h3") == HOSTILE
        assert await it.text(".candidates .chosen .label") == f"click link {HOSTILE} 2"
        assert await it.text(".candidates .chosen .thought") == f"{HOSTILE} is what is asked."
        await it.page.locator("summary").click()
        assert f"{HOSTILE} 1 [1]" in await it.text("pre")
        assert await it.text(".news") == HOSTILE
        await it.page.keyboard.press("ArrowRight")
        assert HOSTILE in await it.text(".ending")
        assert await it.page.evaluate("window.broken") is None
        assert await it.page.locator("img[src=x]").count() == 0
        assert [url for url in it.requests if not url.startswith(("file:", "data:"))] == []
        assert it.complaints == []


async def test_the_policy_refuses_scripts_and_requests_even_if_markup_got_in(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        await record(store, "prompting", task("a"), 0, 1)
        path = write_report(store, tmp_path / "report.html", title="T")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<main>", '<main><script>window.broken=1</script><img src="http://127.0.0.1:9/x">'))
    async with opened(chromium, path) as it:
        await it.page.locator("#rows button").first.wait_for()
        assert await it.page.evaluate("window.broken") is None
        assert any("script" in complaint for complaint in it.complaints)
        assert any("127.0.0.1:9" in complaint and "img-src" in complaint for complaint in it.complaints)


async def test_an_episode_is_stepped_through_by_keys(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        steps = [
            Step(index=0, observation=page(0, screenshot=picture()), decision=decision()),
            Step(index=1, observation=page(1), decision=decision((0.2, 0.6, 0.9), chosen=0, explored=True)),
        ]
        episode = await record(store, "best-of-q", task("a"), 0, steps)
        await record(store, "prompting", task("a"), 0, 1, "failure")
        path = write_report(store, tmp_path / "report.html", Selection(baseline="prompting"), title="T")
    async with opened(chromium, path, f"#{episode}/1") as it:
        assert await it.text(".steps output") == "Step 1 of 2"
        assert await it.page.locator(".candidates li").count() == 3
        assert await it.text(".candidates .chosen .score") == "score 0.600"
        assert await it.text(".candidates .chosen .log") == "log-prob -1.20"
        assert await it.page.locator(".screen img").evaluate("image => image.naturalWidth") == 1
        left = await it.page.locator(".box.chosen").evaluate("box => parseFloat(box.style.left)")
        assert left == pytest.approx(100 * 40 / 1280)
        assert await it.page.locator(".chart .other").count() == 2 * 2 + 1  # and the legend's
        assert await it.page.locator(".chart .taken.explored").count() == 1

        await it.page.keyboard.press("ArrowRight")
        assert await it.text(".steps output") == "Step 2 of 2"
        assert "explored" in await it.text(".candidates .chosen")
        assert "No screenshot" in await it.text(".absent")
        assert "Kettle 1 [1]" in await it.text("pre")
        await it.page.keyboard.press("ArrowRight")
        await it.page.keyboard.press("ArrowRight")
        assert await it.text(".steps output") == "End"
        await it.page.keyboard.press("ArrowLeft")
        assert it.page.url.endswith(f"#{episode}/2")

        await it.page.locator("#find").fill("nothing such")
        assert await it.text("#count") == "0 of 2 episodes"
        await it.page.locator("#find").fill("red kettle")
        await it.page.locator("#outcome").select_option("failure")
        assert await it.text("#count") == "1 of 2 episodes"
        await it.page.locator("#rows button").click()
        assert "prompting" in await it.text("#replay .about")
        assert "null" not in await it.text("#replay")
        assert it.complaints == []


async def test_an_agent_that_does_not_rank_has_no_chart_and_no_bars(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        steps = [Step(index=0, observation=page(0), decision=decision((0.0, 0.0, 0.0), value=None))]
        await record(store, "prompting", task("a"), 0, steps)
        path = write_report(store, tmp_path / "report.html", title="T")
    async with opened(chromium, path) as it:
        assert await it.page.locator(".candidates li").count() == 3
        assert await it.page.locator(".chart, .score").count() == 0
        assert "null" not in await it.text("#replay")


async def test_what_is_left_out_is_said(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        pictures = [picture(bytes([number]) * 400) for number in range(3)]
        for name in ("a", "b", "c", "d"):
            steps = [
                Step(index=i, observation=page(i, screenshot=p), decision=decision()) for i, p in enumerate(pictures)
            ]
            await record(store, "one", task(name), 0, steps)
            await record(store, "two", task(name), 0, steps)
        store.screenshots.path(pictures[0]).unlink()
        path = write_report(store, tmp_path / "report.html", title="T", max_episodes=4, max_picture_bytes=500)
    async with opened(chromium, path) as it:
        said = " ".join((await it.text("section[aria-labelledby=episodes] > p")).split())
        assert said == (
            "4 of 8 can be replayed (tasks spread evenly, the first try of each agent); the others are listed only. "
            "1 screenshots are left out to keep the file small. 1 screenshots were not in the store."
        )
        assert await it.text("#count") == "4 of 8 episodes"
        await it.page.locator("#only").uncheck()
        assert await it.page.locator("#rows button:disabled").count() == 4
        assert "not in the file" in await it.text(".absent")


async def test_ten_thousand_episodes_are_listed_quickly(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store.open(folder) as store:
        await store.begin_run("eval", {}, PROVENANCE)
        first = await record(store, "agent", task("a"), 0, 3)
    engine = database.connect(database.sqlite_url(folder / "store.sqlite"))
    with engine.begin() as connection:
        episode = dict(connection.execute(select(EPISODES)).mappings().one())
        steps = [dict(row) for row in connection.execute(select(STEPS)).mappings()]
        names = [f"{number:05}" for number in range(9_999)]
        connection.execute(insert(EPISODES), [{**episode, "id": name, "task": name} for name in names])
        connection.execute(insert(STEPS), [{**step, "episode": name} for name in names for step in steps])
    engine.dispose()
    assert len(first) == 16
    with Store.open(folder, read_only=True) as store:
        begun = time.process_time()  # not the clock on the wall: the machine may be busy with other things
        path = write_report(store, tmp_path / "report.html", title="T")
        assert time.process_time() - begun < 10
    assert path.stat().st_size < 2_000_000
    async with opened(chromium, path) as it:
        assert await it.text("#count") == "40 of 10,000 episodes"
        await it.page.locator("#only").uncheck()
        await it.page.locator("#more").click()
        assert await it.page.locator("#rows button").count() == 200
