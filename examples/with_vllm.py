"""Eight episodes at once with your own server: vLLM batches what they ask at the same time.

Run it with `.venv/bin/python examples/with_vllm.py http://127.0.0.1:8000/v1`; without an address a stand-in on loopback
answers, as late as a model would.
"""

import asyncio
import sys
import tempfile

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import UniformSelector
from bestofq.core.decision import Provenance
from bestofq.core.protocols import Env
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import synthetic_suite
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.faults import FaultServer
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store

REPLY = """{"candidates": [
 {"thought": "search for it", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": true}},
 {"thought": "begin again", "note": "", "action": {"type": "restart"}}]}"""


async def explore(base_url: str) -> None:
    suite = synthetic_suite()

    async def make_env() -> Env:
        return TextEnv(suite)

    config = ChatConfig(model="Qwen/Qwen2.5-VL-7B-Instruct", base_url=base_url, concurrency=64)
    async with ChatModel(config) as model:
        agent = Agent(name="random", proposer=ChatProposer(model), scorer=ConstantScorer(), selector=UniformSelector())
        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            await store.begin_run("seed", {}, Provenance(version=__version__))
            tasks = suite.tasks("train", limit=8)
            done = await run_many(
                tasks, make_env, agent, store=store, run="seed", concurrency=8, options=RunOptions(step_limit=4)
            )
    print(f"{len(done)} episodes, {sum(episode.steps for episode in done)} steps")


async def main() -> None:
    if sys.argv[1:]:
        await explore(sys.argv[1])
        return
    async with FaultServer(lambda request: REPLY, seconds=0.05) as server:
        await explore(server.base_url)
        print(f"{server.most_at_once} requests were under way at once")


asyncio.run(main())
