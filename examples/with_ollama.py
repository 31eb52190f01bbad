"""A small model on your own machine proposes, and is asked again which of its candidates is best (the picker).

Run it with `.venv/bin/python examples/with_ollama.py http://127.0.0.1:11434/v1`; without an address a stand-in on
loopback answers.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from bestofq.agents.agent import Agent
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.scorers.picker import ChatPickerScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import State
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import synthetic_suite
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.faults import FaultServer

OFFER = """{"candidates": [
 {"thought": "look further down", "note": "", "action": {"type": "scroll", "direction": "down"}},
 {"thought": "search for it", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": true}}]}"""


def stand_in(request: Mapping[str, Any]) -> str:
    """Offers two candidates; asked for the best, it names the second."""
    return '{"best": 2}' if '"best"' in request["messages"][0]["content"] else OFFER


async def decide(base_url: str) -> None:
    suite = synthetic_suite()
    task = suite.tasks("dev", limit=1)[0]
    state = State(task=task, observation=await TextEnv(suite).reset(task, seed=0))
    config = ChatConfig(model="qwen2.5vl:7b", base_url=base_url, concurrency=1, attempt=300, deadline=600)
    async with ChatModel(config) as model:
        agent = Agent(
            name="picker", proposer=ChatProposer(model), scorer=ChatPickerScorer(model), selector=GreedySelector()
        )
        decision = await agent.decide(state, np.random.default_rng(0))
    for index, candidate in enumerate(decision.candidates):
        print("→" if index == decision.chosen else " ", f"{decision.scores[index]:.0f}", candidate.label)


async def main() -> None:
    if sys.argv[1:]:
        await decide(sys.argv[1])
        return
    async with FaultServer(stand_in) as server:
        await decide(server.base_url)


asyncio.run(main())
