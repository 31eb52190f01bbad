"""Two agents by hand in the text shop, looked at in the browser.

Run it with `.venv/bin/python examples/look_at_runs.py FOLDER` and open the address it prints; Ctrl-C ends it. Without a
folder it asks for a few of the pages itself, which takes about a second.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import httpx

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scripted import ScriptedProposer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import Provenance, State
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.serving import serve_app
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.filter import EpisodeFilter
from bestofq.store.store import Store
from bestofq.viewer.app import viewer_app
from bestofq.viewer.server import serve


def hasty(state: State, n: int) -> list[str]:
    """Search for the goal, open the first product, buy it as it is."""
    elements = state.observation.elements
    buy = [f"it will do\nclick [{e.mark}]" for e in elements if e.name.startswith("Buy Now")]
    products = [f"it may do\nclick [{e.mark}]" for e in elements if e.name.startswith("$")]
    return (buy or products or [f'write [1] "{state.task.goal}" enter'])[:n]


def careful(state: State, n: int) -> list[str]:
    """The same, but first choose the options that the goal names."""
    named = [e for e in state.observation.elements if e.role == "radio" and e.name in state.task.goal]
    choices = [f"the goal says {e.name}\nclick [{e.mark}]" for e in named if "checked" not in e.states]
    return [*choices, *hasty(state, n)][:n]


async def fill(folder: Path) -> None:
    suite = synthetic_suite()

    async def make_env() -> TextEnv:
        return TextEnv(suite)

    with Store.open(folder) as store:
        await store.begin_run("example", {}, Provenance(version=__version__))
        for replies in (hasty, careful):
            agent = Agent(
                name=replies.__name__,
                proposer=ScriptedProposer(replies),
                scorer=ConstantScorer(),
                selector=GreedySelector(),
            )
            tasks = suite.tasks("dev", limit=8)
            await run_many(
                tasks, make_env, agent, store=store, run="example", options=RunOptions(step_limit=STEP_LIMIT)
            )


async def ask(folder: Path) -> None:
    with Store.open(folder, read_only=True) as store:
        episode = store.catalogue.episodes(EpisodeFilter(agent="careful"))[0]
        async with serve_app(viewer_app(store, name="example")) as root, httpx.AsyncClient() as client:
            for path in ("/", "/run?run=example", "/episodes?outcome=success", f"/episode/{episode.id}?step=2"):
                answer = await client.get(root + path)
                print(f"{answer.status_code} {path}: {len(answer.text):,} characters")


if len(sys.argv) == 2:
    asyncio.run(fill(Path(sys.argv[1])))
    with Store.open(sys.argv[1], read_only=True) as opened:
        serve(opened, name="example", host="127.0.0.1", port=0, ready=print)
else:
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(fill(Path(temporary)))
        asyncio.run(ask(Path(temporary)))
