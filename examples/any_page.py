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

import bestofq as bq
from bestofq.testing import FaultServer, serve_app


async def approve(question: str) -> bool:
    print(f"asked: {question} No.")
    return False


async def go(goal: str, url: str, model: bq.ChatModel) -> None:
    agent = bq.Agent(name="prompting", proposer=bq.ChatProposer(model), n_candidates=1)
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        async with model:
            episode = await bq.visit(goal, url, agent, store, approve=approve)
    for step in episode.steps:
        print(f"{step.observation.title}: {step.decision.candidate.label}")
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
        goal, url, name, base_url = sys.argv[1:]
        await go(goal, url, bq.ChatModel.at(base_url, name))
        return
    async with serve_app(Starlette(routes=[Route("/", shop)])) as url, FaultServer(stand_in) as server:
        await go("Buy a blue kettle", url, bq.ChatModel.at(server.base_url, "stand-in"))


asyncio.run(main())
