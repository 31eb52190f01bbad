"""Three candidates of a hosted chat model for one page, and what they cost.

Run it with `.venv/bin/python examples/with_openai.py https://api.openai.com/v1`, the key in OPENAI_API_KEY; without an
address a stand-in on loopback answers.
"""

import asyncio
import sys

import bestofq as bq
from bestofq.testing import FaultServer

REPLY = """{"candidates": [
 {"thought": "search for it", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": true}},
 {"thought": "look further down", "note": "", "action": {"type": "scroll", "direction": "down"}}]}"""


async def offer(base_url: str) -> None:
    suite = bq.load_suite("webshop")
    async with suite.open() as make_env, bq.ChatModel.at(base_url, "gpt-4.1", temperature=0.7) as model:
        task = (await suite.tasks("dev"))[0]
        state = bq.State(task=task, observation=await (await make_env()).reset(task, seed=0))
        proposal = await bq.ChatProposer(model).propose(state, 3)
    for candidate in proposal.candidates:
        print(f"{candidate.label}: {candidate.thought}")
    for used in proposal.usage:
        print(f"{used.tokens_in} tokens in, {used.tokens_out} out, ${used.usd:.4f}")


async def main() -> None:
    if sys.argv[1:]:
        await offer(sys.argv[1])
        return
    async with FaultServer(lambda request: REPLY) as server:
        await offer(server.base_url)


asyncio.run(main())
