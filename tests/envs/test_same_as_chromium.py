"""One site, two worlds: in Chromium and as text the shop and the booking site say and do the same, word for word."""

import asyncio
import random
from collections.abc import Callable
from itertools import count

import pytest

from bestofq.browser.browser import Browser
from bestofq.core import actions as act
from bestofq.core.decision import StepResult
from bestofq.core.observation import Element, Observation, Task
from bestofq_sites.booking.pages import COMPLETE
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from bestofq_sites.webshop.pages import ShopVisit
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.oracles.booking import BookingOracle
from experiments.oracles.webshop import Oracle

pytestmark = pytest.mark.asyncio(loop_scope="session")
EPISODES, STEPS = 5, 20
WORDS = (
    "Garden",
    "Ann Lee",
    "555-0101",
    " ann@example.com ",
    "4 people",
    "8",
    "7:30 pm",
    "two\nlines",
    "",
    " red  lamp ",
)
Advise = Callable[[TextEnv, Observation], act.Action]


def random_action(seen: Observation, rng: random.Random) -> act.Action:
    """Any action on any element, and each other kind."""
    element = rng.choice(seen.elements) if seen.elements else Element(mark=1, role="link", name="")
    mark, text = element.mark, rng.choice(WORDS)
    submits = element.name != "Search"  # the shop's text knows no form of this button
    return rng.choice(
        [
            *[act.Click(mark=mark)] * 4,
            *[act.Write(mark=mark, text=text), act.Write(mark=mark, text=text, enter=True)] * 2,
            *(
                act.Clear(mark=mark),
                act.Submit(mark=mark if submits else 1),
                act.Click(mark=99),
                act.AskUser(question="Where do you like to sit?"),
            ),
            *(act.GoBack(), act.GoBack(), act.Refresh(), act.Restart(), act.Scroll(), act.Wait(seconds=0.01)),
            *(act.Goto(url="/cities"), act.Goto(url=seen.url), act.Goto(url="/nowhere?x=1")),
        ]
    )


def same(text: Observation, web: Observation) -> None:
    """Equal except for layout, which a text has not. The shop's text does not number its only form."""
    assert len(web.elements) == len(text.elements)
    flat = [
        theirs.model_copy(
            update={
                "box": None,
                "states": tuple(state for state in theirs.states if state != "offscreen"),
                "form": None if ours.form is None else theirs.form,
            }
        )
        for ours, theirs in zip(text.elements, web.elements, strict=True)
    ]
    assert web.model_copy(update={"elements": tuple(flat)}) == text


async def both(web: LocalWebEnv, text: TextEnv, action: act.Action) -> StepResult:
    """Do it in both worlds. A text can always be scrolled, and the shop words its errors for small models."""
    ours, theirs = await text.step(action), await web.step(action)
    seen, error = theirs.observation, ours.observation.error
    in_shop = isinstance(text.visit, ShopVisit) and seen.error is not None and error is not None
    if isinstance(action, act.Scroll) or in_shop:
        seen = seen.model_copy(update={"error": error})
    same(ours.observation, seen)
    assert (ours.reward, ours.terminated) == (theirs.reward, theirs.terminated)
    return ours


async def test_a_refused_form_the_way_back_and_a_saved_one_are_the_same(browser: Browser) -> None:
    suite = Booking()
    task = suite.tasks("train", 1)[0]
    goal, oracle = suite.goals[task.id], BookingOracle(suite, task.id)
    async with serve(suite) as site:
        web, text = LocalWebEnv(site, browser), TextEnv(suite)
        seen = await text.reset(task, seed=0)
        await web.reset(task, seed=0)
        while not any(element.name == COMPLETE for element in seen.elements):
            seen = (await both(web, text, oracle.advise(text, seen).action)).observation
        mark = {element.name: element.mark for element in seen.elements}
        for action in (
            *(act.Click(mark=mark[COMPLETE]), act.Write(mark=mark["Name"], text=goal.name)),
            *[act.Submit(mark=mark["Phone"])] * 2,
            *[act.GoBack()] * 5,
        ):
            seen = (await both(web, text, action)).observation
        while not any(element.value == goal.phone for element in seen.elements):
            seen = (await both(web, text, oracle.advise(text, seen).action)).observation
        saved = await text.save(), await web.save()
        elsewhere = suite.tasks("dev", 1)[0]
        for _ in range(2):
            same(await text.restore(saved[0]), await web.restore(saved[1]))
            for action in (act.Restart(), act.GoBack(), act.Refresh(), act.GoBack(), act.GoBack()):
                await both(web, text, action)
            same(await text.reset(elsewhere, seed=0), await web.reset(elsewhere, seed=0))
        same(seen := await text.restore(saved[0]), await web.restore(saved[1]))
        result = await both(web, text, act.Click(mark=1))
        same(seen := await text.restore(saved[0]), await web.restore(saved[1]))
        while not result.terminated:
            result = await both(web, text, oracle.advise(text, seen).action)
            seen = result.observation
        assert result.reward == 1
        await web.close()


def booking_guide(suite: Booking, task: Task) -> Advise:
    oracle = BookingOracle(suite, task.id)
    return lambda env, seen: oracle.advise(env, seen).action


def shop_guide(suite: WebShop, task: Task) -> Advise:
    oracle, shop = Oracle(suite, suite.goals[task.id]), suite.server(task.split)
    return lambda env, seen: oracle.advise(shop, env.view, seen).action


@pytest.mark.parametrize("site_name", ["booking", "webshop"])
async def test_random_walks_find_no_difference(browser: Browser, site_name: str) -> None:
    ended = count()
    suite: Booking | WebShop
    if site_name == "booking":
        suite, guide = Booking(), booking_guide
    else:
        suite, guide = synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1)), shop_guide

    async def walk(web: LocalWebEnv, text: TextEnv, task: Task, rng: random.Random) -> None:
        advise, seen = guide(suite, task), await text.reset(task, seed=0)  # type: ignore[arg-type]
        same(seen, await web.reset(task, seed=0))
        for _ in range(STEPS):
            helped = rng.random() < 0.75  # otherwise hardly a walk would come to the end
            result = await both(web, text, advise(text, seen) if helped else random_action(seen, rng))
            seen = result.observation
            if result.terminated:
                next(ended)
                break
        await web.close()

    async with serve(suite) as site:
        tasks = enumerate(suite.tasks("test", EPISODES))
        await asyncio.gather(
            *(walk(LocalWebEnv(site, browser), TextEnv(suite), task, random.Random(n)) for n, task in tasks)
        )
    assert next(ended) >= 1
