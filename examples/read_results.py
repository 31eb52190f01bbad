"""What stored runs say, with intervals: two agents play a little in the text shop, then their store is read.

Run it with `.venv/bin/python examples/read_results.py [FOLDER]`; it takes about ten seconds. With a FOLDER, the store
of runs of your own, that one is read instead, and nothing is played.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import bestofq as bq
from bestofq.testing import ScriptedProposer


def propose(state: bq.State, n: int) -> list[str]:
    """Search for the goal, open one of three products, buy it or go back."""
    elements = state.observation.elements
    for element in elements:
        if element.name.startswith("Buy Now"):
            return [f"click [{element.mark}]", "back"][:n]
    products = [element.mark for element in elements if element.name.startswith("$")]
    return [f"click [{mark}]" for mark in products[:3]] or [f'write [1] "{state.task.goal}" enter']


async def play(store: bq.Store) -> None:
    proposer = ScriptedProposer(propose)
    for agent in (
        bq.Agent(name="first", proposer=proposer),
        bq.Agent(name="any", proposer=proposer, selector=bq.UniformSelector()),
    ):
        await bq.play(agent, bq.load_suite("webshop"), store, tasks=12, repeats=3)


def read(store: bq.Store, out: Path) -> None:
    found = bq.gather(store)
    for table in found.tables:
        if table.name in ("agents", "reliability"):
            print(table.to_markdown())
    print(f"written: {bq.export(store, found, out, title='Example')}")


def main() -> None:
    if len(sys.argv) == 2:
        with bq.Store.open(sys.argv[1], read_only=True) as store:
            read(store, Path(sys.argv[1]) / "report")
        return
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        asyncio.run(play(store))
        read(store, Path(folder) / "report")


main()
