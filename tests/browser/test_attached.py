"""Pages of a browser that is not ours: a user's own Playwright loop sees and acts by `bq.observe` and `bq.act`."""

import pytest
from browser.conftest import Site
from playwright.async_api import Browser

import bestofq as bq
from bestofq.core.errors import BrowserError, InputError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_loop_of_one_s_own_sees_acts_and_navigates(chromium: Browser, site: Site) -> None:
    home = site.page("<title>Shop</title><a href=/red>Red</a> <input aria-label=Search>")
    site.page("<title>Red</title>", "/red")
    page = await chromium.new_page()
    await page.goto(home)
    seen = await bq.observe(page)
    assert [(e.mark, e.role, e.name) for e in seen.elements] == [(1, "link", "Red"), (2, "textbox", "Search")]
    assert await bq.act(page, bq.Write(mark=2, text="shoes")) is None
    assert await page.get_by_label("Search").input_value() == "shoes"
    assert await bq.act(page, bq.Click(mark=9)) is not None
    assert await bq.act(page, bq.Click(mark=1)) is None
    assert page.url.endswith("/red")
    seen = await bq.observe(page, screenshot=True)
    assert seen.title == "Red"
    assert seen.screenshot is not None
    await page.goto(home)  # by the user's own hand
    assert (await bq.observe(page)).title == "Shop"
    await page.close()
    with pytest.raises(BrowserError):
        await bq.observe(page)


async def test_a_tab_that_an_action_opens_is_seen_next(chromium: Browser, site: Site) -> None:
    home = site.page("<title>Shop</title><a href=/new target=_blank>Size chart</a>")
    page = await (await chromium.new_context()).new_page()
    await page.goto(home)
    await bq.observe(page)
    await bq.act(page, bq.Click(mark=1))
    seen = await bq.observe(page)
    assert seen.url.endswith("/new")
    assert len(seen.tabs) == 2
    await page.context.close()


async def test_tabs_that_the_user_opens_are_left_alone(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(site.page("<title>Shop</title><button onclick=\"window.open('/first')\">Go</button>"))
    site.page("<title>First</title><script>open('/second')</script>", "/first")
    await bq.observe(page)
    await (await context.new_page()).goto(site.page("<title>Mail</title>", "/mail"))
    assert (await bq.observe(page)).tabs == ("Shop",)
    await bq.act(page, bq.Click(mark=1))
    assert set((await bq.observe(page)).tabs) == {"Shop", "/second", ""}
    await context.close()


async def test_what_is_no_page_is_refused() -> None:
    with pytest.raises(InputError, match=r"builtins\.str"):
        await bq.observe("https://example.com")  # type: ignore[arg-type]
