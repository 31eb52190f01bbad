"""Many episodes at once in one process and one Chromium, beside the ideal: the share that a slow model leaves.

    python benchmarks/throughput.py --out throughput.json

A scripted proposer takes 2 s a reply, as a model at an endpoint would; every second step loads a page, every other one
ticks a box; each step is observed with a screenshot and committed to the store. The ideal is a browser and a store that
take no time: `episodes` steps every 2 s. Resets are measured with the rest.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.browser.browser import Browser
from bestofq.core.decision import Provenance
from bestofq.core.observation import Task
from bestofq.core.protocols import Env
from bestofq.envs.web import WebEnv
from bestofq.rollouts.runner import run_many
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer

PAGE = (
    "<!doctype html><title>shop</title><a href=/next>Next page</a><p><label><input type=checkbox>Only new</label>"
    + "".join(
        f"<p><a href=/item/{n}>Item {n}</a> ${n}.99 " + "with a description of some length " * 4 for n in range(10)
    )
).encode()


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        return


def scripted(steps: int, seconds: float) -> Agent:
    """Next page, tick, next page, … and an answer as the last step."""
    replies = [[f"click [{1 + number % 2}]"] for number in range(steps - 1)] + [['answer "done"']]
    proposer = ScriptedProposer(replies=replies, seconds=seconds)
    return Agent(name="scripted", proposer=proposer, scorer=ConstantScorer(), selector=GreedySelector())


async def measure(args: argparse.Namespace, folder: Path) -> float:
    """Seconds for all episodes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    tasks = [
        Task(id=str(n), suite="shop", goal="look", start_url=f"http://{host}/", allowed_hosts=(host,))
        for n in range(args.at_once * args.rounds)
    ]
    with Store.open(folder) as store:
        async with Browser.launch() as browser:

            async def make_env() -> Env:
                return WebEnv(browser, screenshots=True)

            await store.begin_run("throughput", {}, Provenance(version="benchmark"))
            begun = time.perf_counter()
            done = await run_many(
                tasks,
                make_env,
                scripted(args.steps, args.reply),
                store=store,
                run="throughput",
                concurrency=args.at_once,
            )
            seconds = time.perf_counter() - begun
        short = [episode for episode in done if episode.steps != args.steps]
        if short or len(done) != len(tasks):
            raise RuntimeError(f"{len(tasks) - len(done) + len(short)} of {len(tasks)} episodes were cut")
    server.shutdown()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=16, help="episodes in flight")
    parser.add_argument("--rounds", type=int, default=2, help="episodes per place in flight")
    parser.add_argument("--steps", type=int, default=10, help="per episode")
    parser.add_argument("--reply", type=float, default=2.0, help="seconds a reply takes")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        seconds = asyncio.run(measure(args, Path(folder)))
    ideal = args.rounds * args.steps * args.reply
    steps = args.at_once * args.rounds * args.steps
    sys.stdout.write(
        f"{steps} steps, {args.at_once} episodes at once: {seconds:.1f} s, {steps / seconds:.2f} steps/s, "
        f"{100 * ideal / seconds:.1f} % of the ideal {ideal:.0f} s\n"
    )
    if args.out:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": 0,
            "commit": commit,
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()},
            "seconds": seconds,
            "steps": steps,
            "share_of_ideal": ideal / seconds,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
