"""One episode in the text WebShop: a proposer by hand, each step printed with all its candidates.

Run it with `.venv/bin/python examples/text_shop.py`; it takes about a second.
"""

import asyncio
import tempfile

import bestofq as bq
from bestofq.testing import ScriptedProposer


def propose(state: bq.State, n: int) -> list[str]:
    """Search for the goal, open a product (two candidates), buy it. The first reply is the greedy choice."""
    elements = state.observation.elements
    for element in elements:
        if element.name.startswith("Buy Now"):
            return [f"it will do\nclick [{element.mark}]"]
    products = [element.mark for element in elements if element.name.startswith("$")]
    return [f"click [{mark}]" for mark in products[:2]] or [f'write [1] "{state.task.goal}" enter']


async def main() -> None:
    agent = bq.Agent(name="by-hand", proposer=ScriptedProposer(propose))
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        [done] = await bq.play(agent, bq.load_suite("webshop"), store, tasks=1)
        episode = store.episode(done.id)
    print(f"goal: {episode.task.goal}")
    for step in episode.steps:
        print(f"step {step.index}: " + " | ".join(candidate.label for candidate in step.decision.candidates))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


asyncio.run(main())
