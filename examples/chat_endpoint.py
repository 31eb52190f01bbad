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

import bestofq as bq
from bestofq.testing import FaultServer


def stand_in(request: Mapping[str, Any]) -> str:
    """What the stand-in replies: buy, else open one of two products, else search."""
    page = request["messages"][1]["content"]
    marks = re.findall(r"Buy Now.*\[(\d+)\]", page) or re.findall(r"\n\$.*\[(\d+)\]", page)[:2]
    actions: list[dict[str, Any]] = [{"type": "click", "element": int(mark)} for mark in marks]
    actions = actions or [{"type": "write", "element": 1, "text": "lamp", "enter": True}]
    return json.dumps({"candidates": [{"thought": "", "note": "", "action": action} for action in actions]})


async def shop(model: bq.ChatModel) -> None:
    agent = bq.Agent(name="chat", proposer=bq.ChatProposer(model))
    with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
        async with model:
            [done] = await bq.play(agent, bq.load_suite("webshop"), store, tasks=1)
        episode = store.episode(done.id)
    print(f"goal: {episode.task.goal}")
    for step in episode.steps:
        print(f"step {step.index}: " + " | ".join(candidate.label for candidate in step.decision.candidates))
        print("        " + ", ".join(f"{u.tokens_in} tokens in, {u.tokens_out} out" for u in step.decision.usage))
    print(f"reward {episode.verdict.reward:.2f}: {episode.verdict.outcome}")


async def main() -> None:
    if len(sys.argv) == 3:
        name, base_url = sys.argv[1:]
        await shop(bq.ChatModel.at(base_url, name))
        return
    async with FaultServer(stand_in, {"429": 0.2, "500": 0.1}) as server:
        await shop(bq.ChatModel.at(server.base_url, "stand-in"))


asyncio.run(main())
