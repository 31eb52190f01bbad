"""What a visit to the shop may do, and what it earns."""

import httpx
import pytest

from bestofq.browser.browser import Browser
from bestofq.core.actions import Clear, Click, GoBack, Goto, Submit, Write
from bestofq.core.decision import StepResult
from bestofq.core.observation import Element
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from bestofq_sites.webshop.pages import BUY
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig


@pytest.fixture(scope="module")
def suite() -> WebShop:
    return synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1))


@pytest.mark.asyncio(loop_scope="session")
async def test_the_right_purchase_earns_one_in_both(suite: WebShop, browser: Browser) -> None:
    async with serve(suite) as site:
        task = suite.tasks("dev")[0]
        for env in (TextEnv(suite), LocalWebEnv(site, browser)):
            seen = await env.reset(task, seed=0)
            goal = suite.goals[task.id]
            product = suite.catalogue[goal.product_id]
            result = await env.step(Write(mark=1, text=product.name, enter=True))
            result = await click(env, result, next(e.name for e in seen_by(result) if e.name.endswith(product.name)))
            for _, value in goal.options:
                result = await click(env, result, value)
            result = await click(env, result, next(e.name for e in seen_by(result) if e.name.startswith(BUY)))
            assert (result.reward, result.terminated) == (1.0, True)
            assert seen.url == "/"
            await env.close()


async def test_a_visit_cannot_buy_twice_nor_reach_another(suite: WebShop) -> None:
    async with serve(suite) as site:
        first, second = (site.open_visit(task) for task in suite.tasks("dev", 2))
        product = next(iter(suite.products("dev").values()))
        async with httpx.AsyncClient() as client:
            await client.post(f"{first}/item/{product.id}?q=x")
            record = site.visits[first][1].bought
            await client.post(f"{first}/item/{product.id}?q=again")
            missing = await client.get(f"{site.url}/v/nobody/")
        assert record is not None
        assert site.visits[first][1].bought is record
        assert site.visits[second][1].bought is None
        assert missing.status_code == 404
        assert second != first


def seen_by(result: StepResult) -> tuple[Element, ...]:
    return result.observation.elements


async def click(env: TextEnv | LocalWebEnv, result: StepResult, name: str) -> StepResult:
    return await env.step(Click(mark=next(e.mark for e in result.observation.elements if e.name == name)))


async def test_text_errors_are_data(suite: WebShop) -> None:
    env = TextEnv(suite)
    await env.reset(suite.tasks("dev")[0], seed=0)
    for action in (Click(mark=9), GoBack(), Goto(url="/nowhere"), Clear(mark=2), Submit(mark=2)):
        result = await env.step(action)
        if not isinstance(action, Submit):
            assert result.observation.error
        assert result.reward == 0


async def test_only_buying_is_irreversible(suite: WebShop) -> None:
    env, task = TextEnv(suite), suite.tasks("dev")[0]
    seen = await env.reset(task, seed=0)
    product = suite.catalogue[suite.goals[task.id].product_id]
    search = Write(mark=1, text=product.name, enter=True)
    assert not suite.irreversible(seen, search)
    found = await env.step(search)
    result = await click(env, found, next(e.name for e in seen_by(found) if e.name.endswith(product.name)))
    for element in seen_by(result):
        for action in (Click(mark=element.mark), Submit(mark=element.mark)):
            assert suite.irreversible(result.observation, action) == element.name.startswith(BUY)
