"""Every page in light, in dark and on a phone: no violation that axe-core finds, nothing wider than the screen.

Pictures of all lie in the folder BESTOFQ_PICTURES, where one is named.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from looking import Look, Looking

from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
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


@pytest.mark.parametrize(
    "page",
    [
        *("/", "/run?run=eval", "/episodes", "/task?suite=shop&task=kettles--0", "/episode/ID?step=2", "/compare"),
        *("/results?run=eval",),
        *("/trees", "/tree?run=search&suite=shop&task=kettles--0", "/nothing"),
    ],
)
async def test_a_page_can_be_read_by_all(shop: Path, look: Looking, page: str) -> None:
    with Store.open(shop, read_only=True) as store:
        page = page.replace("ID", store.catalogue.episodes(EpisodeFilter(agent="hasty"))[0].id)
    out = os.environ.get("BESTOFQ_PICTURES")
    async with look(shop, bypass_csp=True) as it:
        await it.go(page)
        await it.page.evaluate(axe())
        await it.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        for scheme, rules in (("light", AA), ("dark", COLOURS)):
            await it.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert await violations(it, rules) == [], scheme
            assert [said for said in it.complaints if "404" not in said] == []
            await picture(it, out, page, scheme)
        await it.page.set_viewport_size({"width": 390, "height": 844})
        assert await it.page.evaluate(TOO_WIDE) == []
        await picture(it, out, page, "phone")


async def picture(it: Look, out: str | None, page: str, scheme: str) -> None:
    if out is not None:
        name = page.strip("/").partition("?")[0].partition("/")[0] or "home"
        await it.page.screenshot(path=Path(out) / f"{name}-{scheme}.png", full_page=True)
