"""What `bestofq serve` adds to a request: the same requests to an endpoint directly and through the proxy, recording.

    python benchmarks/serve.py --out benchmarks/results/serve.json

The endpoint (on loopback, in this process) answers at once; the proxy is a process of its own. Each request is a
decision on a page of `--characters`; requests alternate between the two ways. Then agents of a few steps against an
endpoint that fails three times in ten, with the same faults both ways: how many come to their end.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import APIError, AsyncOpenAI

from bestofq.testing import FaultServer

SCHEMA = {"name": "agent_output", "schema": {"type": "object", "properties": {"action": {"type": "array"}}}}
FAULTS: Mapping[str, float] = {"429": 0.12, "500": 0.04, "503": 0.04, "reset": 0.05, "silence": 0.05}


def reply(request: Mapping[str, Any]) -> str:
    return json.dumps({"memory": "seen", "next_goal": "go on", "action": [{"click": {"index": 1}}]})


def asks(goal: str, step: int, characters: int = 1_000) -> dict[str, Any]:
    page = "".join(f"[{mark}]<a />\n\tproduct number {mark}\n" for mark in range(1, characters // 30))
    counted = f"<step_info>Step{step} maximum:9</step_info>"
    content = f"<user_request>{goal}</user_request>seen{counted}<browser_state>\n{page}</browser_state>"
    form = {"type": "json_schema", "json_schema": SCHEMA}
    return {"model": "m", "messages": [{"role": "user", "content": content}], "response_format": form}


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[str]:
    """The root of a `bestofq serve` before it."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["serve", "--upstream", upstream, "--store", folder, "--port", "0"]
        command = [sys.executable, "-m", "bestofq.cli.main", *words]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield (await process.stdout.readline()).decode().split()[0].removesuffix("/v1")
        finally:
            process.send_signal(signal.SIGINT)
            await process.wait()


async def latency(requests: int, characters: int) -> dict[str, Any]:
    """Milliseconds a request. Sessions have ten steps."""
    spent: dict[str, list[float]] = {"direct": [], "through": []}
    async with FaultServer(reply) as server, proxied(server.base_url) as root, httpx.AsyncClient() as client:
        for number in range(-20, requests):  # the first ones are not counted
            body = asks(f"task {number // 10}", number % 10 + 1, characters)
            ways = {"direct": server.base_url, "through": f"{root}/sessions/{number // 10}/v1"}
            for way in sorted(ways, reverse=number % 2 == 0):
                began = time.perf_counter()
                got = await client.post(f"{ways[way]}/chat/completions", json=body)
                if number >= 0:
                    spent[way].append(1000 * (time.perf_counter() - began))
                got.raise_for_status()
    added = [through - direct for through, direct in zip(spent["through"], spent["direct"], strict=True)]
    medians = {way: statistics.median(each) for way, each in spent.items()}
    return {
        "direct_ms": medians["direct"],
        "through_ms": medians["through"],
        "ratio": medians["through"] / medians["direct"],
        "added_median_ms": statistics.median(added),
        "added_p95_ms": statistics.quantiles(added, n=20)[-1],
    }


async def finished(url: str, name: int, steps: int) -> bool:
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=1, timeout=0.5) as client:
        try:
            for step in range(steps):
                await client.chat.completions.create(**asks(f"task {name}", step + 1))
        except APIError:
            return False
    return True


async def faults(agents: int, steps: int) -> dict[str, Any]:
    """How many agents come to their end, each with faults of its own; as many pairs as agree."""
    ends: dict[str, list[bool]] = {"direct": [], "through": []}
    for name in range(agents):
        async with FaultServer(reply, FAULTS, seed=name) as server:
            ends["direct"].append(await finished(server.base_url, name, steps))
        async with FaultServer(reply, FAULTS, seed=name) as server, proxied(server.base_url) as root:
            ends["through"].append(await finished(f"{root}/sessions/{name}/v1", name, steps))
    alike = sum(one == other for one, other in zip(ends["direct"], ends["through"], strict=True))
    return {
        "agents": agents,
        "steps": steps,
        "direct": sum(ends["direct"]),
        "through": sum(ends["through"]),
        "alike": alike,
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    return {"latency": await latency(args.requests, args.characters), "faults": await faults(args.agents, args.steps)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--characters", type=int, default=20_000, help="of a page")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4, help="of an agent")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    found = asyncio.run(measure(args))
    took, ends = found["latency"], found["faults"]
    sys.stdout.write(
        f"direct {took['direct_ms']:.2f} ms, through serve {took['through_ms']:.2f} ms: {took['ratio']:.2f} times, "
        f"{took['added_median_ms']:.2f} ms added (median; 95 % below {took['added_p95_ms']:.2f})\n"
        f"under faults {ends['direct']} of {ends['agents']} agents end directly, {ends['through']} through serve\n"
    )
    if args.out:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}
        result = {
            "command": " ".join(["python", *sys.argv]),
            "commit": head.stdout.strip(),
            "machine": machine,
            **found,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
