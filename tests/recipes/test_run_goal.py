"""An episode on an open page: its record, its verdict, and what is left when it is cut."""

import asyncio
import hashlib
from collections import Counter
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
from bestofq.browser.browser import Browser
from bestofq.core.actions import Answer
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Provenance, Step, Verdict
from bestofq.core.errors import InputError, ModelError
from bestofq.core.observation import Observation, Screenshot, Task
from bestofq.core.protocols import Judge
from bestofq.core.secrets import hide
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.recipes.judging import Which, episodes_to_judge, judge_run
from bestofq.recipes.run_goal import UserJudge, own_hosts, page_task, visit
from bestofq.rollouts.episode import EpisodeOptions
from bestofq.rollouts.transitions import tabulate
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedJudge, ScriptedProposer

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
    env, agent = WebEnv(browser, screenshots=True), Agent(name="scripted", proposer=proposer)
    options = EpisodeOptions(judge=UserJudge(ask), step_limit=3, on_step=on_step)
    return await visit(env, agent, task, store=store, config={"model": "scripted"}, options=options)


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
        agent = Agent(name="a", proposer=proposer)
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


@open_page
async def test_the_user_judges_and_what_is_not_judged_teaches_nothing(
    browser: Browser, task: Task, tmp_path: Path
) -> None:
    with Store.open(tmp_path) as store:
        made = [await go(browser, task, store, said, LOOK) for said in (True, False, None)]
        cut_short = await go(browser, task, store, True, [["click [1]"]] * 3)
        found = [(e.verdict.outcome, e.verdict.reward) for e in (*made, cut_short)]
        assert found == [("success", 1.0), ("failure", 0.0), ("unjudged", 0.0), ("failure", 0.0)]
        finished = list(store.episodes())
        [open_end] = [episode for episode in finished if episode.verdict.outcome == "unjudged"]
        assert open_end.id == made[2].id
        assert open_end.steps[-1].terminated
        assert open_end.final is not None
        _, rows = tabulate(store.episodes(), EmbeddingTexts("alone"))
    assert len(rows) == sum(len(e.steps) for e in (*made[:2], cut_short))
    step = finished[0].steps[0]
    assert [c.label for c in step.decision.candidates] == ["click link More", "scroll down"]
    assert step.observation.screenshot is not None
    assert {e.run for e in finished} == {open_end.run}


@open_page
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


OPEN = Verdict(reward=0.0, outcome="unjudged")
WON = Verdict(reward=1.0, outcome="success")
LOST = Verdict(reward=0.0, outcome="failure", reason="ran out of its 30 steps")


async def put(store: Store, name: str, verdict: Verdict, run: str = "r", *, steps: int = 1) -> str:
    data = name.encode()
    shot = Screenshot(sha256=hashlib.sha256(data).hexdigest(), media_type="image/jpeg", width=8, height=8, data=data)
    page = Observation(url="http://a/", title=name, text="", elements=(), screenshot=shot)
    answer = Candidate(action=Answer(text=name), label=f'answer "{name}"')
    decision = Decision(candidates=(answer,), scores=(0.0,), chosen=0)
    task = Task(id=name, suite="s", goal="g", start_url="http://a/")
    episode = await store.begin_episode(run, "walker", task, 0, Provenance(version="test"))
    for index in range(steps):
        await store.append_step(episode, Step(index=index, observation=page, decision=decision, terminated=True))
    await store.finish_episode(episode, verdict, page)
    return episode


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with Store.open(tmp_path) as opened:
        for run in ("r", "shop"):
            await opened.begin_run(run, {}, Provenance(version="test"))
        yield opened


def says(outcome: Outcome, name: str = "scripted") -> ScriptedJudge:
    def outcomes(episode: Episode) -> Outcome:
        assert episode.final.screenshot.data == episode.task.id.encode()  # the picture's bytes are there
        return outcome

    return ScriptedJudge(outcomes, name=name)


def outcomes(store: Store, run: str = "r") -> dict[str, Outcome | None]:
    return {summary.key.task: summary.outcome for summary in store.summaries(run=run)}


async def judged(
    store: Store, run: str, judge: Judge, *, which: Which = "open", limit: int | None = None, concurrency: int = 16
) -> Counter[Outcome]:
    """What `bestofq judge` does."""
    todo = episodes_to_judge(store, run, judge, which=which)[:limit]
    return await judge_run(store, todo, judge, adopt=which != "extra", concurrency=concurrency)


async def test_what_nobody_judged_is_judged_once(store: Store) -> None:
    for name, verdict in (("a", OPEN), ("b", OPEN), ("c", LOST)):
        await put(store, name, verdict)
    assert await judged(store, "r", says("unparseable"), limit=1) == {"unparseable": 1}
    assert await judged(store, "r", says("blocked")) == {"blocked": 2}  # what no verdict could be read of, again
    assert outcomes(store) == {"a": "blocked", "b": "blocked", "c": "failure"}
    assert await judged(store, "r", says("success")) == {}
    assert await judged(store, "r", says("success", "another"), which="all") == {"success": 2}
    assert outcomes(store) == {"a": "success", "b": "success", "c": "failure"}
    assert store.verdicts().keys() == {"scripted", "another"}


async def test_verdicts_beside_the_environments(store: Store) -> None:
    for name, verdict in (("a", WON), ("b", WON), ("c", LOST)):
        await put(store, name, verdict, "shop")
    with pytest.raises(InputError, match="--against-env"):
        await judged(store, "shop", says("failure"))
    assert await judged(store, "shop", says("failure"), which="extra", limit=1) == {"failure": 1}
    assert await judged(store, "shop", says("failure"), which="extra") == {"failure": 1}
    assert await judged(store, "shop", says("failure"), which="extra") == {}
    assert await judged(store, "shop", says("success", "another"), which="extra") == {"success": 2}
    assert outcomes(store, "shop") == {"a": "success", "b": "success", "c": "failure"}


async def test_an_episode_without_a_step_is_not_judged(store: Store) -> None:
    await put(store, "empty", OPEN, steps=0)
    with pytest.raises(InputError, match="no finished episode for a judge"):
        await judged(store, "r", says("success"))
    await put(store, "a", OPEN)
    assert await judged(store, "r", says("success")) == {"success": 1}
    assert outcomes(store) == {"empty": "unjudged", "a": "success"}


async def test_what_was_judged_stays_when_the_judge_goes_away(store: Store) -> None:
    for name in "abc":
        await put(store, name, OPEN)

    def away(episode: Episode) -> Outcome:
        if episode.task.id == "b":
            raise ModelError("no reply")
        return "success"

    with pytest.raises(ModelError, match="no reply"):
        await judged(store, "r", ScriptedJudge(away), concurrency=1)
    assert outcomes(store) == {"a": "success", "b": "unjudged", "c": "unjudged"}


async def test_a_judge_is_not_measured_against_a_judge(store: Store) -> None:
    await put(store, "a", OPEN)
    with pytest.raises(InputError, match="no run 'q' in the store: it has r, shop"):
        await judged(store, "q", says("success"))
    with pytest.raises(InputError, match="none ended by itself"):
        await judged(store, "r", says("success"), which="extra")
