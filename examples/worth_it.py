"""Is a Q-function worth deploying? An agent that chooses at random plays a little in the text shop; its logs tell.

Run it with `.venv/bin/python examples/worth_it.py`; it takes about ten seconds.
"""

import asyncio
import subprocess
import sys
import tempfile

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
    """The name tells with what probability it takes each candidate: random or explore."""
    agent = bq.Agent(name="random", proposer=ScriptedProposer(propose), selector=bq.UniformSelector())
    await bq.play(agent, bq.load_suite("webshop"), store, split="train", tasks=30, repeats=2, run="seed")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with bq.Store.open(folder) as store:
            asyncio.run(play(store))
        settings = ["--set", "iql.steps=200", "--set", "model.embed.matches=true"]
        words = ["estimate", "--store", folder, "--folds", "1", *settings]
        subprocess.run([sys.executable, "-m", "bestofq.cli.main", *words], check=True)


main()
