"""The folder in a real Chromium, opened from disk."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser
from report_nouns import PROVENANCE, decision, page, picture, record, task

from bestofq.core.decision import Step
from bestofq.reports.diagnosis import Options
from bestofq.reports.figures import CurvePoint
from bestofq.reports.folder import write_folder
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.stats import Measure
from bestofq.store.store import Store

HOSTILE = '</style><script>window.broken=1</script><img src=x onerror="window.broken=2">/../q'


async def test_every_ratio_has_its_bounds(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        for repeat in (0, 1):
            for name in "abcd":
                await record(store, "best-of-q", task(name), repeat, 2)
                await record(store, "prompting", task(name), repeat, 3, "failure" if name in "bd" else "success")
        found = gather(store, Selection(baseline="prompting"), Options(prices={"proposer": (1, 2), "embedder": (1, 2)}))
        curve = [CurvePoint(episodes=9, successes=4, success=0.5)]
        drawn = gather(store, Selection(baseline="prompting"), Options(curve=curve)).figures
    tables = {table.name: table for table in found.tables}
    assert set(tables) >= {"agents", "reliability", "recall", "calibration", "behaviour", "spending", "differences"}
    index = (Path(__file__).parents[2] / "docs" / "paper-index.md").read_text("utf-8")
    assert set(re.findall(r"`tables/([\w-]+)", index)) - {"domains"} <= set(tables)  # these tasks have no domain
    figures = {re.sub(r"-(AGENT|ID)$", "", name) for name in re.findall(r"`figures/([\w-]+)", index)}
    assert len(figures) > 5
    assert [name for name in figures if not any(figure.name.startswith(name) for figure in drawn)] == []
    what = {row.cells[2] for row in tables["differences"].rows}
    assert {"pass@2", "task variance", "candidate recall", "ranker's regret", "ECE of Q", "tokens / success"} <= what
    for table in tables.values():
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                bare = isinstance(cell, Measure) and cell.value is not None and cell.interval is None
                assert not bare, (table.name, column.name, row.cells)
                within_runs = column.name.startswith("±")
                stored = table.name in ("values", "prices")  # numbers as they are, no estimates
                assert not isinstance(cell, float) or within_runs or stored, (table.name, column.name)


async def test_both_pages_hold_the_curve_against_the_same(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        await record(store, "prompting", task("a"), 0, 1)
        curve = [CurvePoint(episodes=9, success=0.5)]
        found = gather(store, Selection(baseline="prompting"), Options(curve=curve, curve_baseline=("prompting", 0.3)))
        index = write_folder(store, found, tmp_path / "out", title="T")
    for page_of in (index, index.parent / "episodes.html"):
        assert "prompting 30.0 %" in page_of.read_text("utf-8")
        assert "prompting 100.0 %" not in page_of.read_text("utf-8")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_folder_opens_from_disk_whole_and_runs_nothing(chromium: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE.model_copy(update={"command": "bestofq eval <x>"}))
        steps = [
            Step(index=0, observation=page(0, screenshot=picture()), decision=decision()),
            Step(index=1, observation=page(1), decision=decision((0.2, 0.6, 0.9), chosen=0)),
        ]
        seen: list[str] = []
        for repeat in (0, 1):
            seen.append(await record(store, HOSTILE, task("a"), repeat, steps))
            await record(store, "prompting", task("a"), repeat, 1, "failure" if repeat else "success")
        found = gather(
            store,
            Selection(baseline="prompting"),
            Options(
                curve=[CurvePoint(episodes=9, successes=4, success=0.5, low=0.4, high=0.6)],
                curve_baseline=("prompting", 0.4),
                prices={"proposer": (0.15, 0.6)},
            ),
        )
        index = write_folder(store, found, tmp_path / "out", title=HOSTILE)
    names = {path.name for path in (tmp_path / "out" / "tables").iterdir()}
    assert {f"{name}.csv" for name in ("agents", "reliability", "recall", "behaviour", "spending")} <= names
    figures = list((tmp_path / "out" / "figures").iterdir())
    assert {"success.svg", "pareto.svg", "curve.svg", "curve-successes.svg"} <= {path.name for path in figures}
    assert len(list((tmp_path / "out" / "screenshots").iterdir())) == 1
    requests: list[str] = []
    complaints: list[str] = []
    async with asyncio.timeout(120), await chromium.new_page(viewport={"width": 1300, "height": 900}) as it:
        it.set_default_timeout(20_000)
        it.on("request", lambda request: requests.append(request.url))
        it.on("console", lambda message: complaints.append(message.text))
        it.on("pageerror", lambda error: complaints.append(str(error)))
        await it.goto(index.as_uri())
        assert await it.locator("h1").inner_text() == HOSTILE
        assert await it.locator("section svg").count() == len(figures)
        assert await it.locator("#agents").count() == 1
        assert "bestofq eval <x>" in await it.locator("section").last.inner_text()
        drawn = await it.locator("svg .bar").first.evaluate("bar => getComputedStyle(bar).fill")
        assert drawn != "rgb(0, 0, 0)"  # the figures' style is let through by the page's policy
        links = await it.eval_on_selector_all("a", "links => links.map(a => a.href)")
        files = [link for link in links if "#" not in link]
        assert len(files) > 20
        for link in sorted(set(files), key=lambda link: link.endswith("episodes.html")):  # that one is not loaded anew
            await it.goto(link) if link.endswith((".html", ".svg")) else None
            assert await it.evaluate("window.broken") is None
        await it.goto((tmp_path / "out" / "episodes.html").as_uri() + f"#{seen[0]}/1")
        await it.locator("#rows button").first.wait_for()
        shown = it.locator(".screen img").first
        await shown.wait_for()
        assert (await shown.get_attribute("src") or "").startswith("screenshots/")
        assert await shown.evaluate("image => image.naturalWidth") == 1
    assert [url for url in requests if not url.startswith("file:")] == []
    assert complaints == []
