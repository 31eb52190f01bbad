"""The store's load with 1,000 episodes at once: workers that wait as long as a step takes, and commit real steps.

    python benchmarks/scale.py --out benchmarks/results/scale.json

Nothing is browsed and no model asked: a step is a sleep of `--model` seconds (assumed) and of a time that Chromium took
(drawn from `results/browser_beside_playwright.json`), then a commit by `Store.append_step` to a PostgreSQL of its own
at its default settings, the server on the same machine; no pictures.
First each worker begins its episode; the measured seconds start once all have.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bestofq.store.location import Location
from bestofq.store.store import Store

sys.path.insert(0, str(Path(__file__).parent))
from store_writers import SOURCE, postgresql, schema, step, task

RECORDED = Path(__file__).parent / "results" / "browser_beside_playwright.json"


def work(where: Location, number: int, count: int, given: argparse.Namespace, begin: Any, told: Any) -> None:
    """One process: its share of the workers; milliseconds of each commit that was acknowledged in time."""
    told.put(asyncio.run(share(where, number, count, given, begin)))


async def share(where: Location, number: int, count: int, given: argparse.Namespace, begin: Any) -> list[float]:
    browser = json.loads(RECORDED.read_text("utf-8"))["seconds"]["ours"]["step"]
    draw, made, taken = random.Random(given.seed + number), step(0), []
    with Store.open(where) as store:
        await store.begin_run("r", {}, SOURCE)
        ids = [await store.begin_episode("r", f"a{number}", task(f"t{n}"), 0, SOURCE) for n in range(count)]
        begin.wait()
        until = time.monotonic() + given.seconds

        async def worker(episode: str) -> None:
            index, part = 0, draw.random()  # it starts somewhere within a step: not all commit at once
            while True:
                await asyncio.sleep(part * (given.model + draw.choice(browser)))
                part = 1.0
                seen = made.observation.model_copy(update={"url": f"http://shop/{episode}/{index}"})
                began = time.monotonic()
                if began >= until:
                    return
                await store.append_step(episode, made.model_copy(update={"index": index, "observation": seen}))
                if time.monotonic() < until:
                    taken.append(1000 * (time.monotonic() - began))
                index += 1

        await asyncio.gather(*map(worker, ids))
    return taken


def measure(workers: int, given: argparse.Namespace) -> dict[str, object]:
    browser = json.loads(RECORDED.read_text("utf-8"))["seconds"]["ours"]["step"]
    load = os.getloadavg()[0]
    context = multiprocessing.get_context("spawn")
    begin, told = context.Barrier(given.processes), context.Queue()
    with postgresql() as address, tempfile.TemporaryDirectory() as folder:
        where = Location(schema(address, "scale"), folder)
        with Store.open(where):  # makes the tables
            pass
        each = [
            context.Process(target=work, args=(where, n, workers // given.processes, given, begin, told))
            for n in range(given.processes)
        ]
        for one in each:
            one.start()
        taken = sorted(one for _ in each for one in told.get(timeout=given.seconds + 180))
        for one in each:
            one.join()
    return {
        "steps a second offered": round(workers / (given.model + sum(browser) / len(browser))),
        "steps a second committed": round(len(taken) / given.seconds),
        "commits": len(taken),
        "milliseconds of a commit": {
            f"p{part}": round(taken[min(len(taken) - 1, len(taken) * part // 100)], 1) for part in (50, 99)
        },
        "load before": round(load, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[1000, 4000])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--model", type=float, default=2.0, help="seconds of a model's reply")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    commit = subprocess.run(("git", "rev-parse", "HEAD"), capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "command": f"python benchmarks/scale.py --workers {' '.join(map(str, given.workers))} "
        f"--processes {given.processes} --seconds {given.seconds:g} --model {given.model:g} --seed {given.seed}",
        "commit": commit,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        **{f"workers: {n}": measure(n, given) for n in given.workers},
    }
    body = json.dumps(result, indent=2)
    sys.stdout.write(body + "\n")
    if given.out:
        given.out.write_text(body + "\n")


if __name__ == "__main__":
    main()
