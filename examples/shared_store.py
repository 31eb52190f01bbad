"""Several machines play one run: the same program on each, and every task is played by one of them.

Run it with `.venv/bin/python examples/shared_store.py DATABASE FILES`, on as many machines as you like. DATABASE is
`postgresql+psycopg://user@host/name`, FILES a folder that they share, or `s3://bucket/prefix`. Without them it plays
alone, into a database in a new folder; that takes about five seconds.
"""

import asyncio
import sys
import tempfile

import bestofq as bq
from bestofq.testing import ScriptedProposer


def propose(state: bq.State, n: int) -> list[str]:
    """Search for the goal, open a product, buy it."""
    elements = state.observation.elements
    for element in elements:
        if element.name.startswith("Buy Now"):
            return [f"click [{element.mark}]"]
    products = [element.mark for element in elements if element.name.startswith("$")]
    return [f"click [{mark}]" for mark in products[:n]] or [f'write [1] "{state.task.goal}" enter']


async def main(database: str, files: str) -> None:
    agent = bq.Agent(name="any", proposer=ScriptedProposer(propose), selector=bq.UniformSelector())
    with bq.Store.open(database, files=files) as store:
        episodes = await bq.play(agent, bq.load_suite("webshop"), store, tasks=6)
        print(f"{len(episodes)} of 6 tasks are finished, {sum(one.success for one in episodes)} of them successes")


if len(sys.argv) > 2:
    asyncio.run(main(*sys.argv[1:3]))
else:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite+pysqlite:///{folder}/store.sqlite", folder))
