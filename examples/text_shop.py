"""One episode in the text WebShop: a proposer by hand, each step printed with all its candidates.

Run it with `.venv/bin/python examples/text_shop.py`; it takes about a second.
"""

import asyncio
import tempfile

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scripted import ScriptedProposer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import Provenance, State
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.rollouts.episode import EpisodeOptions, run_episode
from bestofq.store.store import Store


def propose(state: State, n: int) -> list[str]:
    """Search for the goal, open a product (two candidates), buy it. The first reply is the greedy choice."""
    elements = state.observation.elements
    for element in elements:
        if element.name.startswith("Buy Now"):
            return [f"it will do\nclick [{element.mark}]"]
    products = [element.mark for element in elements if element.name.startswith("$")]
    return [f"click [{mark}]" for mark in products[:2]] or [f'write [1] "{state.task.goal}" enter']


async def main() -> None:
    suite = synthetic_suite()
    task = suite.tasks("dev", limit=1)[0]
    agent = Agent(
        name="by-hand", proposer=ScriptedProposer(propose), scorer=ConstantScorer(), selector=GreedySelector()
    )
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        await store.begin_run("example", {}, Provenance(version=__version__))
        episode = await run_episode(
            TextEnv(suite), agent, task, store=store, run="example", options=EpisodeOptions(step_limit=STEP_LIMIT)
        )
    print(f"goal: {task.goal}")
    for step in episode.steps:
        print(f"step {step.index}: " + " | ".join(candidate.label for candidate in step.decision.candidates))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


asyncio.run(main())
