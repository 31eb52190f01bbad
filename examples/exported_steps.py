"""Steps with all their candidates as a table: how often the action taken is not the proposer's first, and its reward.

Run it with `.venv/bin/python examples/exported_steps.py [FOLDER]`; it takes about ten seconds. With a FOLDER, the store
of runs of your own, that one is exported instead, and nothing is played.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from pyarrow import parquet

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


async def play(folder: Path) -> None:
    proposer = ScriptedProposer(propose)
    with bq.Store.open(folder) as store:
        for agent in (
            bq.Agent(name="first", proposer=proposer),
            bq.Agent(name="any", proposer=proposer, selector=bq.UniformSelector()),
        ):
            await bq.play(agent, bq.load_suite("webshop"), store, tasks=12)


def read(folder: Path, out: Path) -> None:
    command = (sys.executable, "-m", "bestofq.cli.main", "export", "steps", folder, "--out", out)
    subprocess.run(command, check=True)
    rewards = defaultdict(list)
    for row in parquet.read_table(out).to_pylist():
        if len(row["candidates"]) > 1:
            rewards[row["agent"], row["chosen"] == 0].append(row["episode_reward"])
    for (agent, first), some in sorted(rewards.items()):
        which = "the first" if first else "another"
        print(f"{agent}: {which} of several taken at {len(some)} steps, mean reward {sum(some) / len(some):.2f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path(made)
        if len(sys.argv) != 2:
            asyncio.run(play(folder))
        read(folder, Path(made) / "steps.parquet")


main()
