"""A small model on your own machine proposes, and is asked again which of its candidates is best (the picker).

Run it with `.venv/bin/python examples/with_ollama.py http://127.0.0.1:11434/v1`; without an address a stand-in on
loopback answers.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import bestofq as bq
from bestofq.testing import FaultServer

OFFER = """{"candidates": [
 {"thought": "look further down", "note": "", "action": {"type": "scroll", "direction": "down"}},
 {"thought": "search for it", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": true}}]}"""


def stand_in(request: Mapping[str, Any]) -> str:
    """Offers two candidates; asked for the best, it names the second."""
    return '{"best": 2}' if '"best"' in request["messages"][0]["content"] else OFFER


async def decide(base_url: str) -> None:
    suite = bq.load_suite("webshop")
    model = bq.ChatModel.at(base_url, "qwen2.5vl:7b", concurrency=1, deadline=600)
    agent = bq.Agent(name="picker", proposer=bq.ChatProposer(model), scorer=bq.ChatPickerScorer(model))
    async with suite.open() as make_env, model:
        task = (await suite.tasks("dev"))[0]
        state = bq.State(task=task, observation=await (await make_env()).reset(task, seed=0))
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
