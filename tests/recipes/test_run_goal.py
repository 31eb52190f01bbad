"""An episode on an open page: its record, its verdict, and what is left when it is cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.browser.browser import Browser
from bestofq.core.decision import Episode, Step
from bestofq.core.errors import InputError
from bestofq.core.observation import Task
from bestofq.core.secrets import hide
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.recipes.run_goal import UserJudge, own_hosts, page_task, visit
from bestofq.rollouts.episode import EpisodeOptions
from bestofq.rollouts.transitions import tabulate
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer

open_page = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://www.example.com/a", ("example.com", "*.example.com")),
        ("https://shop.example.co.uk/", ("shop.example.co.uk", "*.shop.example.co.uk")),
        ("http://127.0.0.1:8080/", ("127.0.0.1:8080",)),
        ("http://localhost:3000/x", ("localhost:3000",)),
        ("http://[::1]:9/", ("[::1]:9",)),
    ],
)
def test_own_hosts(url: str, hosts: tuple[str, ...]) -> None:
    assert own_hosts(url) == hosts


def test_a_task_is_its_goal_and_address() -> None:
    task = page_task("buy", "example.com", hosts=["cdn.test"])
    assert task.start_url == "https://example.com"
    assert task.allowed_hosts == ("example.com", "*.example.com", "cdn.test")
    assert page_task("buy", "example.com", hosts=None).allowed_hosts == ()
    assert page_task("buy", "example.com").id == task.id != page_task("sell", "example.com").id
    with pytest.raises(InputError, match="is no web address"):
        page_task("buy", "javascript:alert(1)")


def test_a_password_in_an_address_is_hidden_and_what_it_looks_for_is_not() -> None:
    start = page_task("buy", "https://ann:to-the-shop@shop.test/?keyword=lantern").start_url
    assert hide(start) == "https://ann:***@shop.test/?keyword=lantern"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with Browser.launch() as made:
        yield made


async def page(_: Request) -> HTMLResponse:
    return HTMLResponse("<title>Kettles</title><a href=/more>More</a>")


@pytest_asyncio.fixture(loop_scope="session")
async def task() -> AsyncIterator[Task]:
    async with serve_app(Starlette(routes=[Route("/{path:path}", page)])) as url:
        yield page_task("look", url)


async def go(
    browser: Browser,
    task: Task,
    store: Store,
    said: bool | None,
    replies: list[list[str]],
    seconds: float = 0.0,
    on_step: Callable[[Step], None] | None = None,
) -> Episode:
    async def ask(_: Episode) -> bool | None:
        return said

    proposer = ScriptedProposer(replies, seconds=seconds)
    return await visit(
        WebEnv(browser, screenshots=True),
        Agent(name="scripted", proposer=proposer, scorer=ConstantScorer(), selector=GreedySelector()),
        task,
        store=store,
        config={"model": "scripted"},
        options=EpisodeOptions(judge=UserJudge(ask), step_limit=3, on_step=on_step),
    )


@open_page
async def test_what_may_be_done_already_is_not_done_again_unasked(browser: Browser, tmp_path: Path) -> None:
    orders = asyncio.Queue[str]()

    async def shop(request: Request) -> HTMLResponse:
        if request.method == "POST":
            await orders.put("order")
            await asyncio.sleep(0.3)
        return HTMLResponse("<form method=post><button>Place order and pay</button></form>")

    async def yes(_: str) -> bool:
        return True

    async def order(store: Store, url: str, **more: bool) -> Episode:
        env = WebEnv(browser, screenshots=False, approve=yes)
        proposer = ScriptedProposer([["click [1]"], ['answer "done"']])
        agent = Agent(name="a", proposer=proposer, scorer=ConstantScorer(), selector=GreedySelector())
        options = EpisodeOptions(judge=UserJudge())
        return await visit(env, agent, page_task("order", url), store=store, config={}, options=options, **more)

    async with serve_app(Starlette(routes=[Route("/", shop, methods=["GET", "POST"])])) as url:
        with Store.open(tmp_path) as store:
            going = asyncio.create_task(order(store, url))
            await orders.get()
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            with pytest.raises(InputError, match="Place order and pay"):
                await order(store, url)
            assert orders.empty()
            await order(store, url, again=True)
            await order(store, url)  # the last one ended
            assert orders.qsize() == 2


LOOK = [["click [1]", "scroll down"], ['answer "more"', "back"]]


@pytest.mark.slow
@open_page
async def test_the_user_says_how_it_ended_and_what_is_not_judged_teaches_nothing(
    browser: Browser, task: Task, tmp_path: Path
) -> None:
    with Store.open(tmp_path) as store:
        made = [await go(browser, task, store, said, LOOK) for said in (True, False, None)]
        cut_short = await go(browser, task, store, True, [["click [1]"]] * 3)
        assert [(e.verdict.outcome, e.verdict.reward) for e in (*made, cut_short)] == [
            ("success", 1.0),
            ("failure", 0.0),
            ("unjudged", 0.0),
            ("failure", 0.0),
        ]
        finished = list(store.episodes())
        [open_end] = [episode for episode in finished if episode.verdict.outcome == "unjudged"]
        assert open_end.id == made[2].id
        assert open_end.steps[-1].terminated
        assert open_end.final is not None
        rows = tabulate(store.episodes(), EmbeddingTexts("alone")).rows
    assert len(rows) == sum(len(e.steps) for e in (*made[:2], cut_short))
    step = finished[0].steps[0]
    assert [c.label for c in step.decision.candidates] == ["click link More", "scroll down"]
    assert step.observation.screenshot is not None
    assert {e.run for e in finished} == {open_end.run}


@open_page
@pytest.mark.slow
async def test_cancelled_it_leaves_its_steps(browser: Browser, task: Task, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        stepped = asyncio.Event()
        going = asyncio.create_task(go(browser, task, store, True, LOOK, seconds=0.4, on_step=lambda _: stepped.set()))
        await stepped.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        [left] = store.episodes(status="interrupted")
        assert len(left.steps) == 1
        again = await go(browser, task, store, True, LOOK)
    assert (again.run, again.verdict.outcome) == (left.run, "success")
