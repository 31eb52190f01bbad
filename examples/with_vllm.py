"""Eight episodes at once with your own server: vLLM batches what they ask at the same time.

Run it with `.venv/bin/python examples/with_vllm.py http://127.0.0.1:8000/v1`; without an address a stand-in on loopback
answers, as late as a model would.
"""

import asyncio
import sys
import tempfile

import bestofq as bq
from bestofq.testing import FaultServer

REPLY = """{"candidates": [
 {"thought": "search for it", "note": "", "action": {"type": "write", "element": 1, "text": "lamp", "enter": true}},
 {"thought": "begin again", "note": "", "action": {"type": "restart"}}]}"""


async def explore(base_url: str) -> None:
    suite = bq.load_suite("webshop")
    async with bq.ChatModel.at(base_url, "Qwen/Qwen2.5-VL-7B-Instruct", concurrency=64) as model:
        agent = bq.Agent(name="random", proposer=bq.ChatProposer(model), selector=bq.UniformSelector())
        with tempfile.TemporaryDirectory() as folder, bq.Store.open(folder) as store:
            done = await bq.play(agent, suite, store, split="train", tasks=8, concurrency=8)
    print(f"{len(done)} episodes, {sum(episode.steps for episode in done)} steps")


async def main() -> None:
    if sys.argv[1:]:
        await explore(sys.argv[1])
        return
    async with FaultServer(lambda request: REPLY, seconds=0.05) as server:
        await explore(server.base_url)
        print(f"{server.most_at_once} requests were under way at once")


asyncio.run(main())
