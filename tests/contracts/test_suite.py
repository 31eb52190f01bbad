"""What every suite keeps to, one of a user's own among them, each made as the command line makes it."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.cli.config import load_config
from bestofq.config.settings import BestOfQSettings
from bestofq.core import actions as act
from bestofq.core.errors import BrowserError, ConfigError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Checkpointable, Env, Suite
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob
from bestofq.envs.serving import serve_app
from bestofq.envs.suites import KINDS, make_suite
from bestofq.envs.web import WebEnv
from bestofq.testing.contracts import check_suite
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.suite import Quirks
from bestofq_sites.webshop.pages import BUY
from bestofq_sites.webshop.suite import synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.oracles.booking import BookingOracle
from experiments.oracles.quirks import QuirksOracle

pytestmark = pytest.mark.asyncio(loop_scope="session")
ROOT = Path(__file__).parents[2]
OWN = "examples.own_suite:make_suite"
SETTINGS = {
    "webshop": [],
    "booking": ["suite.env=browser"],
    "quirks": ["suite.env=browser"],
    "miniwob": ["suite.only=click-link,click-test", "suite.per_task=2"],
    "webvoyager": ["suite.holdout=true"],
    OWN: ["suite.colours=red,blue"],
}


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse("<title>Page</title><a href=/next>next</a>")


@pytest_asyncio.fixture(params=SETTINGS, loop_scope="session")
async def suite(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_browser: None
) -> AsyncIterator[Suite]:
    monkeypatch.chdir(ROOT)
    if request.param == "miniwob" and find_spec("miniwob") is None:
        pytest.skip("MiniWoB++'s pages are not installed")
    async with serve_app(Starlette(routes=[Route("/{path:path}", page)])) as url:
        file = tmp_path / "tasks.jsonl"
        lines = ({"web_name": "Site", "id": str(n), "ques": f"Find page {n}", "web": f"{url}/"} for n in range(30))
        file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
        given = [f"suite.name={request.param}", *SETTINGS[request.param]]
        given += [f"suite.data={file}", "suite.allow=['127.0.0.1']"] if request.param == "webvoyager" else []
        yield make_suite(load_config(BestOfQSettings, None, given).suite)


async def test_every_suite_is_tried() -> None:
    assert set(KINDS) == set(SETTINGS) - {OWN}


async def test_it_keeps_to_the_contract(suite: Suite) -> None:
    await check_suite(suite, disjoint=suite.name != "lamps")  # whose three splits are one


@pytest.mark.parametrize(
    ("name", "code", "wrong"),
    [
        ("nowhere:make", None, "nowhere"),
        ("broken:make", "1 / 0", "ZeroDivisionError"),
        ("empty:make", "", "'make'"),
        ("table:make", "make = 7", "7"),
        ("half:make", "class make:\n    name = 'half'\n    def __init__(self, settings): pass", "protocols.Suite"),
        (
            "typed:make",
            "import pydantic\nclass make(pydantic.BaseModel):\n    rooms: int\n"
            "    def __init__(self, settings): super().__init__(**settings)",
            "suite.rooms",
        ),
    ],
)
async def test_what_is_no_suite_is_refused_by_name(
    name: str, code: str | None, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if code is not None:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(code, "utf-8")
    settings = load_config(BestOfQSettings, None, [f"suite.name={name}", "suite.rooms=many"]).suite
    with pytest.raises(ConfigError) as refused:
        make_suite(settings)
    assert name in str(refused.value)
    assert wrong in str(refused.value)


SHOP = synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1))
BOOKING = Booking()
QUIRKS = Quirks(QuirksSettings())
SUITES: dict[str, Any] = {"webshop": SHOP, "booking": BOOKING, "quirks": QUIRKS}
SITES = tuple(f"{site}-{kind}" for site in SUITES for kind in ("text", "browser"))
Make = Callable[[], Env]


async def links(request: Request) -> HTMLResponse:
    return HTMLResponse("<title>Links</title><p><a href=/1>one</a><p><a href=/2>two</a>")


async def opened(name: str, browser: Browser, stack: AsyncExitStack) -> tuple[Make, list[Task]]:
    """How an environment of this kind is made, and its tasks."""
    site, _, kind = name.partition("-")
    if kind == "text":
        return lambda: TextEnv(SUITES[site]), SUITES[site].tasks("test")
    if kind == "browser":
        served = await stack.enter_async_context(serve(SUITES[site]))
        return lambda: LocalWebEnv(served, browser), SUITES[site].tasks("test")
    if name == "miniwob":
        if find_spec("miniwob") is None:
            pytest.skip("MiniWoB++'s pages are not installed")
        suite = MiniWob(MiniWobSettings(only="click-link", per_task=2))
        await stack.enter_async_context(suite.open())
        return lambda: MiniWobEnv(suite.root, browser), await suite.tasks("test")
    url = await stack.enter_async_context(serve_app(Starlette(routes=[Route("/{path:path}", links)])))
    return lambda: WebEnv(browser, screenshots=False), [
        Task(id=n, suite="s", goal="click", start_url=f"{url}/{n}", allowed_hosts=("127.0.0.1",)) for n in "ab"
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kinds(browser: Browser) -> AsyncIterator[Callable[[str], Awaitable[tuple[Make, list[Task]]]]]:
    """`opened`, each kind once."""
    found: dict[str, tuple[Make, list[Task]]] = {}
    async with AsyncExitStack() as stack:

        async def kind(name: str) -> tuple[Make, list[Task]]:
            if name not in found:
                found[name] = await opened(name, browser, stack)
            return found[name]

        yield kind


@pytest_asyncio.fixture(loop_scope="session")
async def world(
    request: pytest.FixtureRequest, kinds: Callable[[str], Awaitable[tuple[Make, list[Task]]]]
) -> AsyncIterator[tuple[Env, Env, list[Task]]]:
    """Two environments of one kind, and its tasks."""
    make, tasks = await kinds(request.param)
    env, twin = make(), make()
    yield env, twin, tasks
    await env.close()
    await twin.close()


every_env = pytest.mark.parametrize("world", [*SITES, "miniwob", "page"], indirect=True)
sites = pytest.mark.parametrize("world", SITES, indirect=True)


@every_env
async def test_a_reset_begins_anew_whatever_was_done(world: tuple[Env, Env, list[Task]]) -> None:
    env, twin, tasks = world
    first = await env.reset(tasks[0], seed=0)
    assert first.error is None
    assert {element.mark for element in first.elements} == set(range(1, len(first.elements) + 1))
    for action in (act.Click(mark=1), act.Refresh()):
        if (await env.step(action)).terminated:
            break
    assert page_of(await env.reset(tasks[0], seed=0)) == page_of(first)
    assert page_of(await twin.reset(tasks[0], seed=1)) == page_of(first)


@every_env
async def test_what_cannot_be_done_is_told_and_an_answer_ends_the_episode(world: tuple[Env, Env, list[Task]]) -> None:
    env, _, tasks = world
    seen = await env.reset(tasks[0], seed=0)
    for action in (act.Click(mark=len(seen.elements) + 1), act.Other(text="pinch the map")):
        result = await env.step(action)
        assert result.observation.error
        assert (result.terminated, result.truncated) == (False, False)
        assert not result.reward
        assert page_of(result.observation.model_copy(update={"error": None})) == page_of(seen)
    result = await env.step(act.Answer(text="done"))
    assert result.terminated
    assert not result.reward
    assert (await env.reset(tasks[1], seed=0)).error is None


@every_env
async def test_there_is_nothing_to_step_before_a_reset_nor_after_the_close(world: tuple[Env, Env, list[Task]]) -> None:
    env, fresh, tasks = world
    await env.reset(tasks[0], seed=0)
    await env.close()
    await env.close()
    for closed in (env, fresh):
        with pytest.raises((RuntimeError, BrowserError)):
            await closed.step(act.Click(mark=1))
    assert (await env.reset(tasks[0], seed=0)).error is None


def random_action(seen: Observation, rng: random.Random) -> act.Action:
    mark = rng.choice(seen.elements).mark
    fields = [e.mark for e in seen.elements if e.role in ("searchbox", "textbox", "combobox")] or [mark]
    text = rng.choice(["blue house", "4 people", "8:30 PM", "ann@example.com", "mouse"])
    return rng.choice(
        [
            *[act.Click(mark=mark)] * 4,
            *[act.Write(mark=rng.choice(fields), text=text)] * 2,
            *(act.Write(mark=rng.choice(fields), text=text, enter=True), act.Clear(mark=mark), act.Submit(mark=mark)),
            *(act.GoBack(), act.GoBack(), act.Refresh(), act.Restart(), act.Scroll()),
            act.AskUser(question="Where do you like to sit?"),
        ]
    )


def page_of(seen: Observation) -> object:
    """All but the picture: what an agent acts on."""
    return seen.model_dump(exclude={"screenshot"})


@dataclass
class Node:
    """A state, as it was when it was saved, and one way on from there."""

    saved: object
    seen: object
    actions: list[act.Action]
    results: list[tuple[object, float | None, bool]]


async def play(env: Env, actions: Iterable[act.Action]) -> list[tuple[object, float | None, bool]]:
    """What comes of the actions, until the end."""
    results = []
    for action in actions:
        result = await env.step(action)
        results.append((page_of(result.observation), result.reward, result.terminated))
        if result.terminated:
            break
    return results


async def explored(env: Env, task: Task, rng: random.Random) -> list[Node]:
    """Three states of one episode (two in a browser, which takes long), and a way on from each."""
    assert isinstance(env, Checkpointable)
    nodes = []
    seen, ended = await env.reset(task, seed=0), False
    for _ in range(3 if isinstance(env, TextEnv) else 2):
        for _ in range(4):
            before, here = await env.save(), page_of(seen)
            result = await env.step(random_action(seen, rng))
            if result.terminated:
                seen = await env.restore(before)
                assert page_of(seen) == here
            else:
                seen = result.observation
        node = Node(saved=await env.save(), seen=page_of(seen), actions=[], results=[])
        while len(node.actions) < 5 and not ended:
            node.actions.append(random_action(seen, rng))
            result = await env.step(node.actions[-1])
            seen, ended = result.observation, result.terminated
            node.results.append((page_of(seen), result.reward, ended))
        nodes.append(node)
        seen, ended = await env.restore(node.saved), False
    return nodes


@sites
async def test_the_rest_is_the_same_each_time(world: tuple[Env, Env, list[Task]]) -> None:
    env, twin, tasks = world
    rng = random.Random(11)
    both = zip((env, twin), tasks[:2], (11, 12), strict=True)
    found = await asyncio.gather(*(explored(one, task, random.Random(seed)) for one, task, seed in both))
    nodes = [node for some in found for node in some]

    async def check(one: Env, some: Iterable[Node]) -> None:
        assert isinstance(one, Checkpointable)
        for node in some:
            assert page_of(await one.restore(node.saved)) == node.seen
            assert await play(one, node.actions) == node.results

    order = [*rng.sample(nodes, len(nodes)), *rng.sample(nodes, 2)]
    await asyncio.gather(check(env, order[::2]), check(twin, order[1::2]))  # what one saved is good in the other


async def to_the_brink(env: Env, task: Task) -> tuple[Observation, act.Action]:
    """Where one more action places the order, and that action."""
    seen = await env.reset(task, seed=0)
    if task.suite == "webshop":
        seen = (await env.step(act.Write(mark=1, text="mouse", enter=True))).observation
        seen = (await env.step(act.Click(mark=next(e.mark for e in seen.elements if "$" in e.name)))).observation
        return seen, act.Click(mark=next(e.mark for e in seen.elements if e.name.startswith(BUY)))
    assert isinstance(env, TextEnv | LocalWebEnv)
    if task.suite == "quirks":
        guide, rng = QuirksOracle(QUIRKS, task, knows=True), random.Random(0)
        while not QUIRKS.irreversible(seen, action := guide.advise(env.visit, seen, rng).action):
            seen = (await env.step(action)).observation
        return seen, action
    oracle = BookingOracle(BOOKING, task.id)
    while not BOOKING.irreversible(seen, action := oracle.advise(env, seen).action):
        seen = (await env.step(action)).observation
    return seen, action


@sites
async def test_two_go_on_from_one_page_and_neither_sees_what_the_other_does(world: tuple[Env, Env, list[Task]]) -> None:
    env, fresh, tasks = world  # the second was never reset
    assert isinstance(env, Checkpointable)
    assert isinstance(fresh, Checkpointable)
    seen, order = await to_the_brink(env, tasks[0])
    saved = await env.save()
    anew = await play(env, [act.Refresh()])
    assert page_of(await fresh.restore(saved)) == page_of(await env.restore(saved)) == page_of(seen)
    assert (await env.step(order)).terminated
    assert await play(fresh, [act.Refresh()]) == anew
    await env.close()
    assert page_of(await fresh.restore(saved)) == page_of(seen)
    assert (await fresh.step(order)).terminated
