"""Two agents by hand in the text shop, looked at in the browser.

Run it with `.venv/bin/python examples/look_at_runs.py FOLDER` and open the address it prints; Ctrl-C ends it. Without a
folder it asks for a few of the pages itself, which takes about a second.
"""

import asyncio
import sys
import tempfile

import httpx
import uvicorn

import bestofq as bq
from bestofq.testing import ScriptedProposer, serve_app


def hasty(state: bq.State, n: int) -> list[str]:
    """Search for the goal, open the first product, buy it as it is."""
    elements = state.observation.elements
    buy = [f"it will do\nclick [{e.mark}]" for e in elements if e.name.startswith("Buy Now")]
    products = [f"it may do\nclick [{e.mark}]" for e in elements if e.name.startswith("$")]
    return (buy or products or [f'write [1] "{state.task.goal}" enter'])[:n]


def careful(state: bq.State, n: int) -> list[str]:
    """The same, but first choose the options that the goal names."""
    named = [e for e in state.observation.elements if e.role == "radio" and e.name in state.task.goal]
    choices = [f"the goal says {e.name}\nclick [{e.mark}]" for e in named if "checked" not in e.states]
    return [*choices, *hasty(state, n)][:n]


async def fill(store: bq.Store) -> None:
    for replies in (hasty, careful):
        agent = bq.Agent(name=replies.__name__, proposer=ScriptedProposer(replies))
        await bq.play(agent, bq.load_suite("webshop"), store, tasks=8)


async def ask(store: bq.Store) -> None:
    episode = next(store.episodes(agent="careful"))
    async with serve_app(bq.viewer_app(store, name="example")) as root, httpx.AsyncClient() as client:
        for path in ("/", "/run?run=example", "/episodes?outcome=success", f"/episode/{episode.id}?step=2"):
            answer = await client.get(root + path)
            print(f"{answer.status_code} {path}: {len(answer.text):,} characters")


with tempfile.TemporaryDirectory() as temporary, bq.Store.open(sys.argv[1] if sys.argv[1:] else temporary) as opened:
    asyncio.run(fill(opened))
    if sys.argv[1:]:
        uvicorn.run(bq.viewer_app(opened, name="example"), port=8760)
    else:
        asyncio.run(ask(opened))
