"""What stored runs say, with intervals: two agents play a little in the text shop, then their store is read.

Run it with `.venv/bin/python examples/read_results.py [FOLDER]`; it takes about ten seconds. With a FOLDER, the store
of runs of your own, that one is read instead, and nothing is played.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scripted import ScriptedProposer
from bestofq.agents.selectors import GreedySelector, UniformSelector
from bestofq.core.decision import Provenance, State
from bestofq.core.protocols import Env
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.reports.behaviour import behaviour
from bestofq.reports.recall import recall, sibling_steps
from bestofq.reports.report import gather
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.viewer.export import export


def propose(state: State, n: int) -> list[str]:
    """Search for the goal, open one of three products, buy it or go back."""
    elements = state.observation.elements
    for element in elements:
        if element.name.startswith("Buy Now"):
            return [f"click [{element.mark}]", "back"][:n]
    products = [element.mark for element in elements if element.name.startswith("$")]
    return [f"click [{mark}]" for mark in products[:3]] or [f'write [1] "{state.task.goal}" enter']


async def play(store: Store) -> None:
    suite = synthetic_suite()
    await store.begin_run("example", {"n_candidates": 3}, Provenance(version=__version__, command="by hand"))

    async def make_env() -> Env:
        return TextEnv(suite)

    for name, selector in (("first", GreedySelector()), ("any", UniformSelector())):
        agent = Agent(name=name, proposer=ScriptedProposer(propose), scorer=ConstantScorer(), selector=selector)
        tasks = suite.tasks("dev", limit=12)
        await run_many(
            tasks, make_env, agent, store=store, run="example", repeats=3, options=RunOptions(step_limit=STEP_LIMIT)
        )


def read(store: Store, out: Path) -> None:
    found = gather(store)
    for table in found.tables:
        if table.name in ("agents", "reliability"):
            print(table.to_markdown())
    episodes = list(store.episodes())
    for agent in sorted({episode.agent for episode in episodes}):
        habits = behaviour(episodes, agent)
        rated, steps = sibling_steps(episodes, agent, episodes)
        kept = recall(agent, rated, of=steps)
        print(f"{agent}: {habits.steps.value:.1f} steps an episode, same step again {habits.repeated.value:.0%}")
        if kept.recall.value is not None and kept.recall.interval is not None:
            bounds = kept.recall.interval
            print(f"  recall {kept.recall.value:.0%}, 95 % [{bounds.low:.0%}, {bounds.high:.0%}] of {kept.steps} steps")
    print(f"written: {export(store, found, out, title='Example')}")


def main() -> None:
    if len(sys.argv) == 2:
        with Store.open(sys.argv[1], read_only=True) as store:
            read(store, Path(sys.argv[1]) / "report")
        return
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        asyncio.run(play(store))
        read(store, Path(folder) / "report")


main()
