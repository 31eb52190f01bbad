"""What `bestofq serve` costs: the same requests to an endpoint alone and through it, recording, shadowing and ranking.

    python benchmarks/serve.py --out benchmarks/results/serve.json

The endpoint and each proxy are processes of their own on loopback. A request is a decision on a page, and the larger
ones carry a picture that no other request has. Sessions of ten steps ask at once, each request after the reply to
the last. The arms take turns in each round, in an order by `--seed`. Then `--kept` requests with pictures go through
one recording proxy, in sessions whose end nobody reports: its resident memory. Last, agents of a few steps against an
endpoint that fails three times in ten, with the same faults both ways: how many come to their end.
"""

import argparse
import asyncio
import base64
import io
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from openai import APIError, AsyncOpenAI
from PIL import Image

from bestofq.testing import FaultServer

SCHEMA = {"name": "agent_output", "schema": {"type": "object", "properties": {"action": {"type": "array"}}}}
FAULTS: Mapping[str, float] = {"429": 0.12, "500": 0.04, "503": 0.04, "reset": 0.05, "silence": 0.05}
ARMS = ("alone", "record", "shadow", "rank")
STEPS = 10  # of a session
NUMBERS = count()


def reply(request: Mapping[str, Any], index: int = 1) -> str:
    return json.dumps({"memory": "seen", "next_goal": "go on", "action": [{"click": {"index": index}}]})


def asks(goal: str, step: int, size: int = 1_000) -> dict[str, Any]:
    """A request of about so many bytes: at most 20,000 of text, the others in a picture."""
    page = "".join(f"[{mark}]<a />\n\tproduct number {mark}\n" for mark in range(1, (min(size, 20_000) - 300) // 30))
    counted = f"<step_info>Step{step} maximum:9</step_info>"
    content: Any = f"<user_request>{goal}</user_request>seen{counted}<browser_state>\n{page}</browser_state>"
    if size > 20_000:
        shot = {"url": f"data:image/png;base64,{picture(size - 20_000)}"}
        content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": shot}]
    form = {"type": "json_schema", "json_schema": SCHEMA}
    return {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": content}], "response_format": form}


def picture(size: int) -> str:
    """A new picture of so many characters in base64."""
    kept = _PICTURES.setdefault(size, io.BytesIO())
    if not kept.getvalue():
        side = int((size / 4) ** 0.5)
        Image.frombytes("RGB", (side, side), random.Random(0).randbytes(3 * side * side)).save(kept, "png")
    return base64.b64encode(kept.getvalue() + next(NUMBERS).to_bytes(8)).decode()


_PICTURES: dict[int, io.BytesIO] = {}


async def answer(seconds: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The replies click one of three elements in turn."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
            await asyncio.sleep(seconds)
            message = {"role": "assistant", "content": reply({}, next(NUMBERS) % 3 + 1)}
            usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            choices = [{"index": 0, "message": message}]
            said = json.dumps({"id": "r", "object": "chat.completion", "choices": choices, "usage": usage})
            headers = f"content-type: application/json\r\ncontent-length: {len(said)}"
            writer.write(f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n{said}".encode())
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def endpoint(seconds: float) -> None:
    server = await asyncio.start_server(partial(answer, seconds), "127.0.0.1", 0, limit=1 << 24)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


@asynccontextmanager
async def process(*words: str) -> AsyncIterator[tuple[str, int]]:
    """The address that a program says first, and its id."""
    program = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=subprocess.PIPE)
    assert program.stdout is not None
    try:
        yield (await program.stdout.readline()).decode().split()[0].removesuffix("/v1"), program.pid
    finally:
        program.terminate()  # a background job may ignore SIGINT
        await program.communicate()


@asynccontextmanager
async def proxied(upstream: str, *words: str) -> AsyncIterator[tuple[str, int]]:
    """The root of a `bestofq serve` before it, and its process's id."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = ["serve", "--upstream", upstream, "--store", folder, "--port", "0"]
        async with process("-m", "bestofq.cli.main", *fixed, *words) as there:
            yield there


async def learn(upstream: str, q: Path) -> None:
    """Leave a memory of 32 recorded sessions in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        where = ["--store", folder]
        serve = ["serve", "--upstream", upstream, "--port", "0", *where]
        async with process("-m", "bestofq.cli.main", *serve) as (root, _), httpx.AsyncClient() as client:
            for number in range(32):
                at = f"{root}/sessions/{number}"
                got = await client.post(f"{at}/v1/chat/completions", json=asks(f"task {number}", 1))
                won = '\\"index\\": 1' in got.text
                (await client.post(f"{at}/outcome", json={"success": won})).raise_for_status()
        train = ["train", *where, "--run", "serve", "--no-estimate", "--out", str(q)]
        learning = await asyncio.create_subprocess_exec(sys.executable, "-m", "bestofq.cli.main", *train, stdout=-3)
        assert await learning.wait() == 0


async def session(client: httpx.AsyncClient, url: str, steps: int, size: int, took: list[float]) -> None:
    """Milliseconds of each request go to `took`."""
    name = next(NUMBERS)
    for step in range(steps):
        content = json.dumps(asks(f"task {name}", step + 1, size)).encode()
        began = time.perf_counter()
        got = await client.post(url.format(name=f"s{name}"), content=content)
        took.append(1000 * (time.perf_counter() - began))
        got.raise_for_status()


async def latency(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Medians over the rounds of the medians of each round: milliseconds, and how many times `alone`."""
    table = []
    async with AsyncExitStack() as stack:
        q = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "q"
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=600, limits=httpx.Limits()))
        for seconds in args.seconds:
            upstream, _ = await stack.enter_async_context(process(__file__, "--endpoint", str(seconds)))
            if not q.exists():
                await learn(f"{upstream}/v1", q)
            urls = {"alone": f"{upstream}/v1/chat/completions"}
            for arm in ARMS[1:]:
                words = () if arm == "record" else (f"--{arm}", str(q), *(["--insist"] if arm == "rank" else ()))
                root, _ = await stack.enter_async_context(proxied(f"{upstream}/v1", *words))
                urls[arm] = f"{root}/sessions/{{name}}/v1/chat/completions"
            for size, sessions in ((size, sessions) for size in args.bytes for sessions in args.sessions):
                steps = STEPS if size < 1_000_000 and not seconds else 3 if size < 1_000_000 or sessions == 1 else 1
                medians: dict[str, list[float]] = {arm: [] for arm in ARMS}
                for number in range(-1, args.rounds):  # the first round is not counted
                    for arm in random.Random(f"{args.seed} {number}").sample(ARMS, len(ARMS)):
                        took: list[float] = []
                        await asyncio.gather(*(session(client, urls[arm], steps, size, took) for _ in range(sessions)))
                        if number >= 0:
                            medians[arm].append(statistics.median(took))
                row: dict[str, Any] = {"upstream_seconds": seconds, "bytes": size, "sessions": sessions}
                for arm in ARMS:
                    row[f"{arm}_ms"] = statistics.median(medians[arm])
                for arm in ARMS[1:]:
                    pairs = zip(medians[arm], medians["alone"], strict=True)
                    row[f"{arm}_ratio"] = statistics.median(ours / alone for ours, alone in pairs)
                table.append(row)
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()
    return table


def resident(pid: int) -> float:
    """MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


async def memory(requests: int, size: int) -> dict[str, Any]:
    """MB resident at the start and after each twentieth of the requests."""
    found = []
    async with process(__file__, "--endpoint", "0") as (upstream, _), proxied(f"{upstream}/v1") as (root, pid):
        client = httpx.AsyncClient(timeout=600)
        for number in range(requests // STEPS):
            if number % max(1, requests // STEPS // 20) == 0:
                found.append(resident(pid))
            await session(client, f"{root}/sessions/{{name}}/v1/chat/completions", STEPS, size, [])
        found.append(resident(pid))
        await client.aclose()
    return {"requests": requests, "bytes": size, "resident_mb": found}


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
        async with FaultServer(reply, FAULTS, seed=name) as server, proxied(server.base_url) as (root, _):
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
    parts = {
        "latency": lambda: latency(args),
        "memory": lambda: memory(args.kept, max(args.bytes)),
        "faults": lambda: faults(args.agents, 4),
    }
    return {part: await parts[part]() for part in args.parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["latency", "memory", "faults"])
    parser.add_argument("--bytes", type=int, nargs="+", default=[2_000, 5_000_000], help="of a request")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 32], help="at once")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.0, 1.0], help="that the endpoint takes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept", type=int, default=2_000, help="requests to measure the memory with")
    parser.add_argument("--agents", type=int, default=20, help="against faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--endpoint", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    if args.endpoint is not None:
        asyncio.run(endpoint(args.endpoint))
    before = os.getloadavg()
    found = asyncio.run(measure(args))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if args.out:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "load": [before, os.getloadavg()]}
        result = {
            "command": " ".join(["python", *sys.argv]),
            "commit": head.stdout.strip(),
            "seed": args.seed,
            "machine": machine,
            **found,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
