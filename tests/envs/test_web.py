"""A real page as an environment."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from starlette.responses import HTMLResponse

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Answer, AskUser, Click, Goto
from bestofq.core.errors import BrowserError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def task() -> AsyncIterator[Task]:
    async with serve_app(HTMLResponse("<title>Shop</title><a href=/bought>Buy now</a>")) as root:
        yield Task(id="t", suite="s", goal="buy", start_url=f"{root}/", allowed_hosts=(root.removeprefix("http://"),))


async def test_an_episode(browser: Browser, task: Task) -> None:
    async def bought(of: Task, action: Action, seen: Observation) -> tuple[float, bool]:
        done = seen.url == f"{of.start_url}bought"
        return float(done), done

    env: Env = WebEnv(browser, screenshots=True, evaluate=bought)
    seen = await env.reset(task, seed=0)
    assert (seen.title, seen.text) == ("Shop", "Buy now [1]")
    assert seen.screenshot is not None
    result = await env.step(Goto(url="https://elsewhere.example/"))
    assert (result.reward, result.terminated) == (0.0, False)
    told = f"elsewhere.example is not among the task's allowed hosts ({task.allowed_hosts[0]})."
    assert result.observation.error == told
    result = await env.step(Click(mark=1))
    assert (result.observation.error, result.reward, result.terminated) == (None, 1.0, True)
    assert (await env.reset(task, seed=1)).url == task.start_url
    await env.close()
    with pytest.raises(BrowserError, match="reset it first"):
        await env.step(Click(mark=1))


async def test_answers_questions_and_refused_targets(browser: Browser, task: Task) -> None:
    async def user(question: str) -> str:
        return f"{question} Blue."

    env = WebEnv(browser, screenshots=False, user=user)
    await env.reset(task, seed=0)
    asked = await env.step(AskUser(question="Which colour?"))
    assert asked.observation.notices == ("The user replied: Which colour? Blue.",)
    assert not asked.terminated
    refused = await env.step(Click(target="the gift card", refusal="There is no gift card."))
    assert refused.observation.error == "There is no gift card."
    clicked = await env.step(Click(mark=1))
    assert clicked.observation.url.endswith("/bought")
    assert clicked.observation.screenshot is None
    ended = await env.step(Answer(text="done"))
    assert (ended.terminated, ended.reward) == (True, None)  # a judge must say
    alone = WebEnv(browser, screenshots=False)
    await alone.reset(task, seed=0)
    assert (await alone.step(AskUser(question="Who?"))).observation.error == "There is no user to ask."
    assert (await alone.step(Click(target="Buy now"))).observation.error is not None
    await env.close()
    await alone.close()
