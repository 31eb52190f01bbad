"""One goal on any web page as a library call, with a user who is asked before anything that cannot be taken back.

Run it with `.venv/bin/python examples/any_page.py GOAL URL MODEL BASE_URL`; without arguments a page and a stand-in for
the model, both on loopback.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.agents.agent import Agent
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.browser.browser import Browser
from bestofq.core.decision import Episode
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.faults import FaultServer
from bestofq.recipes.run_goal import UserJudge, page_task, visit
from bestofq.rollouts.episode import EpisodeOptions
from bestofq.store.store import Store


async def approve(question: str) -> bool:
    print(f"asked: {question} No.")
    return False


async def no_verdict(episode: Episode) -> bool | None:
    return None


async def go(goal: str, url: str, config: ChatConfig) -> None:
    async with ChatModel(config) as model, Browser.launch() as browser:
        agent = Agent(
            name="prompting",
            proposer=ChatProposer(model),
            scorer=ConstantScorer(),
            selector=GreedySelector(),
            n_candidates=1,
        )
        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            episode = await visit(
                WebEnv(browser, screenshots=True, approve=approve),
                agent,
                page_task(goal, url),
                store=store,
                config={"model": config.model},
                options=EpisodeOptions(
                    judge=UserJudge(no_verdict),
                    on_decision=lambda state, decision: print(f"{state.observation.title}: {decision.candidate.label}"),
                ),
            )
    print(f"{len(episode.steps)} steps, {episode.verdict.reason}")


async def shop(request: Request) -> HTMLResponse:
    return HTMLResponse("<title>Kettles</title><p>Blue kettle, $20 <button>Buy now</button>")


def stand_in(request: Mapping[str, Any]) -> str:
    """Buys; told that the user does not allow it, it answers."""
    page = request["messages"][1]["content"][0]["text"]
    [mark] = re.findall(r"Buy now \[(\d+)\]", page)
    action = f'{{"type": "click", "element": {mark}}}'
    if "did not allow" in page:
        action = '{"type": "answer", "text": "It costs $20; I did not buy it."}'
    return f'{{"candidates": [{{"thought": "", "note": "", "action": {action}}}]}}'


async def main() -> None:
    if len(sys.argv) == 5:
        await go(sys.argv[1], sys.argv[2], ChatConfig(model=sys.argv[3], base_url=sys.argv[4]))
        return
    async with serve_app(Starlette(routes=[Route("/", shop)])) as url, FaultServer(stand_in) as server:
        await go("Buy a blue kettle", url, ChatConfig(model="stand-in", base_url=server.base_url))


asyncio.run(main())
