"""The exported pages in a real Chromium, opened from disk."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest
from looking import WIDTH, Look, Looking
from playwright.async_api import Browser
from tiny_shop import ShopEnv, play, shop_agent, shop_task, shop_tree

from bestofq.reports.report import gather
from bestofq.reports.rows import Selection
from bestofq.reports.svg import Figure
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.viewer.export import export

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=2"> href="/run" <!-- {{ 7 * 7 }}'


@asynccontextmanager
async def opened(chromium: Browser, path: Path) -> AsyncIterator[Look]:
    async with asyncio.timeout(120), await chromium.new_page(viewport={"width": 1300, "height": 900}) as page:
        it = Look.at(page, "")
        await page.goto(path.as_uri())
        yield it


async def follow(it: Look, words: str) -> None:
    await it.page.get_by_role("link", name=words, exact=True).first.click()


def links_of(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.html"))]


def missing(files: set[str]) -> list[str]:
    return [file for file in files if file and not Path(file).exists()]


async def test_the_pages_open_from_disk_and_lead_to_each_other(
    chromium: Browser, shop: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("report")
    with Store.open(shop, read_only=True) as store:
        index = export(store, gather(store, Selection(baseline="hasty")), out, title="A <report>")
    async with opened(chromium, index) as it:
        assert await it.text("h1") == "A <report>"
        assert "4 of 4 episodes can be stepped through" in " ".join((await it.text("main")).split())
        assert "100.0 [" in await it.text("#agents >> xpath=.. >> table")
        assert await it.page.locator("figure svg").count() == 2
        fill = await it.page.locator("figure svg .bar").first.evaluate("bar => getComputedStyle(bar).fill")
        assert fill != "rgb(0, 0, 0)"  # the style is let through by the page's policy
        links = await it.page.eval_on_selector_all("a", "links => links.map(a => a.href)")
        files = {link.partition("#")[0].removeprefix("file://") for link in links if "#" not in link}
        assert len(files) > 20
        assert missing(files) == []

        await follow(it, "Episodes")
        rows = it.page.locator("table.rows tbody tr:visible")
        assert await rows.count() == 4
        await it.page.locator("input[data-rows]").fill("KETTLES hasty")
        assert await rows.count() == 1
        await rows.locator("a").first.click()
        where = it.page.locator("output")
        await where.filter(has_text="Step 1 of 2").wait_for()
        assert await it.page.locator(".candidates li").count() == 2
        shown = it.page.locator(".shot image")
        assert await shown.evaluate(WIDTH) == 640
        assert await it.page.locator(".chart circle.other").count() > 0
        for key, words in (("ArrowRight", "Step 2 of 2"), ("ArrowRight", "End"), ("Home", "Step 1 of 2")):
            await it.page.keyboard.press(key)
            await where.filter(has_text=words).wait_for()
        await it.page.locator(".chart a").nth(1).click(force=True)
        await where.filter(has_text="Step 2 of 2").wait_for()
        await follow(it, "Runs")
        await follow(it, "eval")
        assert await it.page.locator("#tasks .dot.good").count() == 2 + 1  # and the key's
        await follow(it, "Results")
        await it.page.locator("#trees >> xpath=.. >> tbody a").first.click()
        assert (await it.text(".node .bars")).split()[-1] == "0.450"
        assert await it.page.locator("form:visible, select:visible").count() == 0
        assert [url for url in it.requests if not url.startswith(("file:", "data:"))] == []
        assert it.complaints == []
    for page in links_of(out):
        assert 'href="/' not in (out / page).read_text("utf-8")


async def test_a_hostile_page_is_shown_as_text_and_nothing_runs(chromium: Browser, tmp_path: Path) -> None:
    task = shop_task(HOSTILE, HOSTILE)
    with Store.open(tmp_path / "store") as store:
        await play(store, shop_agent(HOSTILE, HOSTILE), task=task, run=HOSTILE, env=ShopEnv(HOSTILE))
        await store.trees.save(HOSTILE, shop_tree(task, HOSTILE).to_tree())
        index = export(store, gather(store), tmp_path / "out", title=HOSTILE)
    async with opened(chromium, index) as it:
        assert await it.text("h1") == HOSTILE
        for page in links_of(tmp_path / "out"):
            await it.page.goto((tmp_path / "out" / page).as_uri())
            assert await it.page.evaluate("window.broken") is None
            assert await it.page.locator("img[src=x]").count() == 0
        assert [url for url in it.requests if not url.startswith(("file:", "data:"))] == []
        assert it.complaints == []


async def test_the_policy_refuses_scripts_and_requests_of_alien_markup(
    chromium: Browser, shop: Path, tmp_path: Path
) -> None:
    with Store.open(shop, read_only=True) as store:
        index = export(store, gather(store), tmp_path, title="T")
    text = index.read_text("utf-8")
    bad = '<script>window.broken=1</script><img src="http://127.0.0.1:9/x">'
    index.write_text(text.replace("<main>", f"<main>{bad}"), "utf-8")
    async with opened(chromium, index) as it:
        await it.page.locator("#agents").wait_for()
        assert await it.page.evaluate("window.broken") is None
        assert any("script" in complaint for complaint in it.complaints)
        assert any("127.0.0.1:9" in complaint and "img-src" in complaint for complaint in it.complaints)


async def test_pages_are_about_the_chosen_runs_alone_and_the_rest_is_listed(shop: Path, tmp_path: Path) -> None:
    with Store.open(copytree(shop, tmp_path / "shop")) as store:
        await play(store, shop_agent("spy"), run="secret")
        found = gather(store, Selection(runs=["eval"]))
        out = export(store, found, tmp_path / "out", title="T", max_episodes=2).parent
    whole = {page: (out / page).read_text("utf-8") for page in links_of(out)}
    assert not any("secret" in text.partition("<main")[0] for text in whole.values())
    listed = next(text for page, text in whole.items() if page.startswith("pages/episodes"))
    assert (listed.count("kettles--0"), listed.count("mugs--0"), listed.count("spy")) == (2, 2, 0)
    assert len({page.split("-")[1].removesuffix(".html") for page in whole if page.startswith("pages/episode-")}) == 2
    assert "2 of 4 episodes" in " ".join(whole["index.html"].split())
    assert not any(page.startswith("pages/tree-") for page in whole)


async def test_figures_with_long_names_have_files_of_their_own(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        await play(store, *(shop_agent(f"careful (runs{' 1' * 150}{more})") for more in ("", " 2")))
        found = gather(store)
        own = [Figure(f"of {agent}", agent, found.figures[0].svg) for agent in found.made]
        found = replace(found, figures=[*found.figures, *own])
        index = export(store, found, tmp_path / "out", title="T")
    files = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert len(files) == len(found.figures)
    assert set(re.findall(r'href="figures/([^"]+)"', index.read_text("utf-8"))) == files


AA = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
TOO_WIDE = """() => {
  const scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement.closest("main *")));
  const wide = e => e.getBoundingClientRect().right > innerWidth && !scrolls(e.parentElement.closest("main *"));
  return document.documentElement.scrollWidth <= innerWidth ? []
    : [...document.querySelectorAll("main *")].filter(wide).map(e => e.outerHTML.slice(0, 90)) }
"""
COLOURS = {"type": "rule", "values": ["color-contrast"]}


def axe() -> str:
    """The script of axe-core, from the wheel that carries it."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python")
    return Path(spec.origin).with_name("axe.min.js").read_text("utf-8")


async def violations(it: Look, rules: dict[str, object]) -> list[str]:
    found = await it.page.evaluate(
        "rules => axe.run(document, { runOnly: rules, resultTypes: ['violations'] }).then(r => r.violations)", rules
    )
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


PAGES = ["/", "/run?run=eval", "/episodes", "/results?run=eval", "/trees", "/nothing", "/compare"]
PAGES += ["/task?suite=shop&task=kettles--0", "/episode/ID?step=2", "/tree?run=search&suite=shop&task=kettles--0"]


async def test_each_page_can_be_read_by_all(shop: Path, look: Looking) -> None:
    with Store.open(shop, read_only=True) as store:
        episode = store.catalogue.episodes(EpisodeFilter(agent="hasty"))[0].id
    async with look(shop, bypass_csp=True) as it:
        for page in PAGES:
            await it.page.set_viewport_size({"width": 1300, "height": 900})
            await it.go(page.replace("ID", episode))
            await it.page.evaluate(axe())
            await it.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            for scheme, rules in (("light", AA), ("dark", COLOURS)):
                await it.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert await violations(it, rules) == [], (page, scheme)
                assert [said for said in it.complaints if "404" not in said] == [], page
            await it.page.set_viewport_size({"width": 390, "height": 844})
            assert await it.page.evaluate(TOO_WIDE) == [], page
