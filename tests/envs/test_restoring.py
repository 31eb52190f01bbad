"""Every environment that can be put back: the rest of an episode is the same each time it is played from there."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, AskUser, Clear, Click, GoBack, Refresh, Restart, Scroll, Submit, Write
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env, Restores
from bestofq.envs.booking import site as booking_site
from bestofq.envs.booking.suite import Suite as Booking
from bestofq.envs.booking.text import TextEnv as BookingText
from bestofq.envs.booking.web import BookingEnv
from bestofq.envs.webshop import site as shop_site
from bestofq.envs.webshop.pages import BUY
from bestofq.envs.webshop.suite import synthetic_suite
from bestofq.envs.webshop.synthetic import SyntheticConfig
from bestofq.envs.webshop.text import TextEnv as ShopText
from bestofq.envs.webshop.web import WebShopEnv
from experiments.oracles.booking import BookingOracle

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHOP = synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1))
BOOKING = Booking()
WORLDS = ("webshop-text", "webshop-browser", "booking-text", "booking-browser")


@pytest_asyncio.fixture(params=WORLDS, loop_scope="session")
async def world(request: pytest.FixtureRequest, browser: Browser) -> AsyncIterator[tuple[Env, Env, list[Task]]]:
    """Two environments of one world, and its tasks."""
    async with AsyncExitStack() as stack:
        make: Callable[[], Env]
        if request.param == "webshop-text":
            make = lambda: ShopText(SHOP)  # noqa: E731
        elif request.param == "booking-text":
            make = lambda: BookingText(BOOKING)  # noqa: E731
        elif request.param == "webshop-browser":
            shop = await stack.enter_async_context(shop_site.serve(SHOP))
            make = lambda: WebShopEnv(shop, browser)  # noqa: E731
        else:
            tables = await stack.enter_async_context(booking_site.serve(BOOKING))
            make = lambda: BookingEnv(tables, browser)  # noqa: E731
        tasks = SHOP.tasks("test") if request.param.startswith("webshop") else BOOKING.tasks("test")
        env, twin = make(), make()
        yield env, twin, tasks
        await env.close()
        await twin.close()


def random_action(seen: Observation, rng: random.Random) -> Action:
    mark = rng.choice(seen.elements).mark
    fields = [e.mark for e in seen.elements if e.role in ("searchbox", "textbox", "combobox")] or [mark]
    text = rng.choice(["blue house", "4 people", "8:30 PM", "ann@example.com", "mouse"])
    return rng.choice(
        [
            *[Click(mark=mark)] * 4,
            *[Write(mark=rng.choice(fields), text=text)] * 2,
            *(Write(mark=rng.choice(fields), text=text, enter=True), Clear(mark=mark), Submit(mark=mark)),
            *(GoBack(), GoBack(), Refresh(), Restart(), Scroll(), AskUser(question="Where do you like to sit?")),
        ]
    )


def told(seen: Observation) -> object:
    """All but the picture: what an agent acts on."""
    return seen.model_dump(exclude={"screenshot"})


@dataclass
class Node:
    """A state, as it was when it was saved, and one way on from there."""

    saved: object
    seen: object
    actions: list[Action]
    results: list[tuple[object, float | None, bool]]


async def play(env: Env, actions: Iterable[Action]) -> list[tuple[object, float | None, bool]]:
    """What comes of the actions, until the end."""
    results = []
    for action in actions:
        result = await env.step(action)
        results.append((told(result.observation), result.reward, result.terminated))
        if result.terminated:
            break
    return results


async def explored(env: Env, task: Task, rng: random.Random) -> list[Node]:
    """Three states of one episode, and a way on from each."""
    assert isinstance(env, Restores)
    nodes = []
    seen, ended = await env.reset(task, seed=0), False
    for _ in range(3):
        for _ in range(4):
            before, here = await env.save(), told(seen)
            result = await env.step(random_action(seen, rng))
            if result.terminated:
                seen = await env.restore(before)
                assert told(seen) == here
            else:
                seen = result.observation
        node = Node(saved=await env.save(), seen=told(seen), actions=[], results=[])
        while len(node.actions) < 5 and not ended:
            node.actions.append(random_action(seen, rng))
            result = await env.step(node.actions[-1])
            seen, ended = result.observation, result.terminated
            node.results.append((told(seen), result.reward, ended))
        nodes.append(node)
        seen, ended = await env.restore(node.saved), False
    return nodes


async def test_the_rest_is_the_same_each_time(world: tuple[Env, Env, list[Task]]) -> None:
    env, twin, tasks = world
    rng = random.Random(11)
    both = zip((env, twin), tasks[:2], (11, 12), strict=True)
    found = await asyncio.gather(*(explored(one, task, random.Random(seed)) for one, task, seed in both))
    nodes = [node for some in found for node in some]

    async def check(one: Env, some: Iterable[Node]) -> None:
        assert isinstance(one, Restores)
        for node in some:
            assert told(await one.restore(node.saved)) == node.seen
            assert await play(one, node.actions) == node.results

    order = [*rng.sample(nodes, len(nodes)), *rng.sample(nodes, 2)]
    await asyncio.gather(check(env, order[::2]), check(twin, order[1::2]))  # what one saved is good in the other


async def to_the_brink(env: Env, task: Task) -> tuple[Observation, Action]:
    """Where one more action places the order, and that action."""
    seen = await env.reset(task, seed=0)
    if task.suite == "webshop":
        seen = (await env.step(Write(mark=1, text="mouse", enter=True))).observation
        seen = (await env.step(Click(mark=next(e.mark for e in seen.elements if "$" in e.name)))).observation
        return seen, Click(mark=next(e.mark for e in seen.elements if e.name.startswith(BUY)))
    oracle = BookingOracle(BOOKING, task.id)
    assert isinstance(env, BookingText | BookingEnv)
    while not BOOKING.irreversible(seen, action := oracle.advise(env, seen).action):
        seen = (await env.step(action)).observation
    return seen, action


async def test_two_go_on_from_one_page_and_neither_sees_what_the_other_does(
    world: tuple[Env, Env, list[Task]],
) -> None:
    env, fresh, tasks = world  # the second was never reset
    assert isinstance(env, Restores)
    assert isinstance(fresh, Restores)
    seen, order = await to_the_brink(env, tasks[0])
    saved = await env.save()
    anew = await play(env, [Refresh()])
    assert told(await fresh.restore(saved)) == told(await env.restore(saved)) == told(seen)
    assert (await env.step(order)).terminated
    assert await play(fresh, [Refresh()]) == anew
    await env.close()
    assert told(await fresh.restore(saved)) == told(seen)
    assert (await fresh.step(order)).terminated
