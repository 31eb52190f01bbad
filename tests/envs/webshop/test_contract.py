"""One shop, two worlds: the site in Chromium and the text environment say and do the same, word for word."""

import asyncio
import random

import pytest

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Clear, Click, GoBack, Goto, Refresh, Restart, Scroll, Submit, Write
from bestofq.core.decision import StepResult
from bestofq.core.observation import Element, Observation
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from bestofq_sites.webshop.pages import BUY
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig

STEPS = 14
AT_ONCE = 4  # pages that walk side by side


@pytest.fixture(scope="module")
def suite() -> WebShop:
    return synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1))


def random_action(suite: WebShop, seen: Observation, rng: random.Random) -> Action:
    """Mostly clicks; now and then each other kind, a typed text without Enter included."""
    fields = [e.mark for e in seen.elements if e.role == "searchbox"]
    words = rng.choice(list(suite.catalogue.values())).name.split()
    query = " ".join(rng.sample(words, 2))
    if fields and rng.random() < 0.75:
        return rng.choice(
            [
                Write(mark=fields[0], text=query, enter=True),
                Write(mark=fields[0], text=query),
                Write(mark=fields[0], text=""),
                Submit(mark=fields[0]),
                Clear(mark=fields[0]),
                Click(mark=2),
            ]
        )
    buy = [e.mark for e in seen.elements if e.name.startswith(BUY)]
    if buy and rng.random() < 0.25:
        return Click(mark=buy[0])
    if seen.elements and rng.random() < 0.8:
        return Click(mark=rng.choice(seen.elements).mark)
    return rng.choice([GoBack(), Refresh(), Restart(), Scroll(), Click(mark=99)])


def same(text: Observation, web: Observation) -> None:
    assert web.text == text.text
    assert web.title == text.title
    assert web.url == text.url
    for ours, theirs in zip(text.elements, web.elements, strict=True):
        states = tuple(s for s in theirs.states if s in ("checked", "disabled"))
        assert (ours.mark, ours.role, ours.name, ours.value or None, ours.states) == (
            theirs.mark,
            theirs.role,
            theirs.name,
            theirs.value or None,
            states,
        )


@pytest.mark.asyncio(loop_scope="session")
async def test_random_walks_find_no_difference(suite: WebShop, browser: Browser) -> None:
    left = iter(enumerate(suite.tasks("test")[:8]))
    ended = 0

    async def walk(web: LocalWebEnv, text: TextEnv) -> None:
        nonlocal ended
        for number, task in left:
            rng = random.Random(number)
            seen = await text.reset(task, seed=0)
            same(seen, await web.reset(task, seed=0))
            for _ in range(STEPS):
                action = random_action(suite, seen, rng)
                ours, theirs = await text.step(action), await web.step(action)
                same(ours.observation, theirs.observation)
                if not isinstance(action, Scroll):  # a text has no layout, so it cannot end
                    errors = ours.observation.error, theirs.observation.error
                    assert (errors[0] is None) == (errors[1] is None), errors
                assert (ours.reward, ours.terminated) == (theirs.reward, theirs.terminated)
                seen = ours.observation
                if ours.terminated:
                    ended += 1
                    break
        await web.close()

    async with serve(suite) as site:
        await asyncio.gather(*(walk(LocalWebEnv(site, browser), TextEnv(suite)) for _ in range(AT_ONCE)))
    assert ended >= 1


@pytest.mark.asyncio(loop_scope="session")
async def test_the_right_purchase_earns_one_in_both(suite: WebShop, browser: Browser) -> None:
    async with serve(suite) as site:
        task = suite.tasks("dev")[0]
        for env in (TextEnv(suite), LocalWebEnv(site, browser)):
            seen = await env.reset(task, seed=0)
            goal = suite.goal(task.id)
            product = suite.catalogue[goal.product_id]
            result = await env.step(Write(mark=1, text=product.name, enter=True))
            result = await click(env, result, next(e.name for e in seen_by(result) if e.name.endswith(product.name)))
            for _, value in goal.options:
                result = await click(env, result, value)
            result = await click(env, result, next(e.name for e in seen_by(result) if e.name.startswith(BUY)))
            assert (result.reward, result.terminated) == (1.0, True)
            assert seen.url == "/"
            await env.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_white_space_that_was_typed_reads_the_same_in_both(suite: WebShop, browser: Browser) -> None:
    async with serve(suite) as site:
        read = []
        for env in (TextEnv(suite), LocalWebEnv(site, browser)):
            await env.reset(suite.tasks("dev")[0], seed=0)
            read.append((await env.step(Write(mark=1, text=" red  lamp "))).observation)
            await env.close()
        same(*read)


async def test_a_visit_cannot_buy_twice_nor_reach_another(suite: WebShop) -> None:
    async with serve(suite) as site:
        first, second = (site.open_visit(task) for task in suite.tasks("dev", 2))
        import httpx

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
    product = suite.catalogue[suite.goal(task.id).product_id]
    search = Write(mark=1, text=product.name, enter=True)
    assert not suite.irreversible(seen, search)
    found = await env.step(search)
    result = await click(env, found, next(e.name for e in seen_by(found) if e.name.endswith(product.name)))
    for element in seen_by(result):
        for action in (Click(mark=element.mark), Submit(mark=element.mark)):
            assert suite.irreversible(result.observation, action) == element.name.startswith(BUY)
