"""One episode with a model behind an OpenAI-compatible endpoint: all candidates in one reply.

Run it with `.venv/bin/python examples/chat_endpoint.py MODEL BASE_URL`, the key in OPENAI_API_KEY; without arguments a
stand-in on loopback answers, which fails every third time as endpoints do. Any agent takes the same proposer.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import Provenance
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.webshop.suite import STEP_LIMIT, synthetic_suite
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.faults import FaultServer
from bestofq.rollouts.episode import EpisodeOptions, run_episode
from bestofq.store.store import Store


def stand_in(request: Mapping[str, Any]) -> str:
    """What the stand-in replies: buy, else open one of two products, else search."""
    page = request["messages"][1]["content"]
    marks = re.findall(r"Buy Now.*\[(\d+)\]", page) or re.findall(r"\n\$.*\[(\d+)\]", page)[:2]
    actions: list[dict[str, Any]] = [{"type": "click", "element": int(mark)} for mark in marks]
    actions = actions or [{"type": "write", "element": 1, "text": "lamp", "enter": True}]
    return json.dumps({"candidates": [{"thought": "", "note": "", "action": action} for action in actions]})


async def shop(config: ChatConfig) -> None:
    suite = synthetic_suite()
    task = suite.tasks("dev", limit=1)[0]
    async with ChatModel(config) as model:
        agent = Agent(
            name="chat",
            proposer=ChatProposer(model),
            scorer=ConstantScorer(),
            selector=GreedySelector(),
            n_candidates=3,
        )
        with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
            await store.begin_run("example", {}, Provenance(version=__version__))
            episode = await run_episode(
                TextEnv(suite), agent, task, store=store, run="example", options=EpisodeOptions(step_limit=STEP_LIMIT)
            )
    print(f"goal: {task.goal}")
    for step in episode.steps:
        print(f"step {step.index}: " + " | ".join(candidate.label for candidate in step.decision.candidates))
        print("        " + ", ".join(f"{u.tokens_in} tokens in, {u.tokens_out} out" for u in step.decision.usage))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


async def main() -> None:
    if len(sys.argv) == 3:
        await shop(ChatConfig(model=sys.argv[1], base_url=sys.argv[2]))
        return
    async with FaultServer(stand_in, {"429": 0.2, "500": 0.1}) as server:
        await shop(ChatConfig(model="stand-in", base_url=server.base_url))


asyncio.run(main())
