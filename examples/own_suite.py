"""A suite of your own: what its pages are, what its tasks are, and when a task is done. In a real Chromium.

Run it with `.venv/bin/python examples/own_suite.py`; it takes a few seconds.
"""

import asyncio
import tempfile
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scripted import ScriptedProposer
from bestofq.agents.selectors import UniformSelector
from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.decision import Provenance, State
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.recipes.open_page import own_hosts
from bestofq.rollouts.runner import run_many
from bestofq.store.store import Store

COLOURS = ("red", "green", "blue")


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse("".join(f"<p><a href=/lamp/{colour}>{colour} lamp</a>" for colour in COLOURS))


def tasks(url: str) -> Sequence[Task]:
    hosts = own_hosts(url)
    return [Task(id=c, suite="lamps", goal=f"Open the {c} lamp", start_url=url, allowed_hosts=hosts) for c in COLOURS]


async def evaluate(task: Task, action: Action, seen: Observation) -> tuple[float, bool]:
    """The reward, and whether the task has ended: after every step."""
    return float(seen.url.endswith(f"/lamp/{task.id}")), "/lamp/" in seen.url


def propose(state: State, n: int) -> list[str]:
    return [f"click [{element.mark}]" for element in state.observation.elements]


async def main() -> None:
    agent = Agent(
        name="random", proposer=ScriptedProposer(propose), scorer=ConstantScorer(), selector=UniformSelector()
    )
    async with serve_app(Starlette(routes=[Route("/{path:path}", page)])) as url, Browser.launch() as browser:

        async def make_env() -> Env:
            return WebEnv(browser, screenshots=False, evaluate=evaluate)

        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            await store.begin_run("lamps", {}, Provenance(version=__version__))
            done = await run_many(tasks(url), make_env, agent, store=store, run="lamps", repeats=4, concurrency=4)
    print(f"{sum(episode.success for episode in done)} of {len(done)} episodes succeeded")


asyncio.run(main())
