"""Any agent behind `bestofq serve`: it changes its base URL, and its episodes are recorded. All of it on loopback.

Run it with `.venv/bin/python examples/serve_agent.py`; it takes some seconds. The endpoint is a stand-in.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
from typing import Any

import httpx
from openai import AsyncOpenAI

import bestofq as bq
from bestofq.testing import FaultServer

PAGE = "<user_request>Buy a kettle</user_request><browser_state>\n[1]<button />\n\tAdd to cart\n</browser_state>"
ACTIONS = {"name": "agent_output", "schema": {"type": "object", "properties": {"action": {"type": "array"}}}}


async def agent(root: str) -> None:
    """One step of an agent that asks as browser-use does, and how its episode ended."""
    asks: dict[str, Any] = {"model": "stand-in", "messages": [{"role": "user", "content": PAGE}]}
    asks["response_format"] = {"type": "json_schema", "json_schema": ACTIONS}
    async with AsyncOpenAI(base_url=f"{root}/sessions/first/v1", api_key="none") as client:
        print((await client.chat.completions.create(**asks)).choices[0].message.content)
    async with httpx.AsyncClient() as client:
        await client.post(f"{root}/sessions/first/outcome", json={"success": True})


async def main() -> None:
    async with FaultServer(lambda request: '{"action": [{"click": {"index": 1}}]}') as server:
        with tempfile.TemporaryDirectory() as folder:
            words = ["serve", "--upstream", server.base_url, "--store", folder, "--port", "0"]
            command = [sys.executable, "-m", "bestofq.cli.main", *words]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            address = (await process.stdout.readline()).decode().split()[0]
            await agent(address.removesuffix("/v1"))
            process.send_signal(signal.SIGINT)
            await process.wait()
            with bq.Store.open(folder, read_only=True) as store:
                for episode in store.episodes():
                    action = episode.steps[0].decision.candidate.label
                    print(f"{episode.task.goal}: {action}: {episode.verdict.outcome}")


asyncio.run(main())
