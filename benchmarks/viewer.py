"""How soon the viewer's pages of a large store are there: over HTTP on loopback, and painted by Chromium.

    python benchmarks/viewer.py --out benchmarks/results/viewer.json

The store is synthetic: four agents in five runs, four steps an episode (tests/viewer/test_viewer_answers.py).
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from playwright.async_api import async_playwright

from bestofq.browser.chromium import find_chromium, switches
from bestofq.browser.config import BrowserConfig
from bestofq.envs.serving import serve_app
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.viewer.app import viewer_app

sys.path.extend(str(Path(__file__).parent.parent / "tests" / part) for part in ("", "viewer"))
from test_viewer_answers import write_many


async def measure(folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds by page: the first time (the viewer has just been started), then median and most of `repeats`; and
    Chromium's first contentful paint of the first time in another viewer, from the moment the address is asked for."""
    with Store.open(folder, read_only=True) as store:
        one, other = store.catalogue.episodes(EpisodeFilter(run="run-1", task=_a_task(store)), limit=2)
        pages = {
            "home": "/",
            "runs": "/runs",
            "a run": "/run?run=run-1",
            "a run, outcomes differ": "/run?run=run-1&differing=1",
            "episodes": "/episodes",
            "episodes, last page": f"/episodes?page={-(-store.catalogue.count(EpisodeFilter()) // 50)}",
            "episodes, words of a goal": "/episodes?find=kettle+37",
            "episodes, filtered": "/episodes?agent=random&outcome=failure",
            "a task": f"/task?suite=shop&task={one.key.task}",
            "a step": f"/episode/{one.id}?step=2",
            "side by side": f"/compare?left={one.id}&right={other.id}",
            "compare": "/compare",
        }
    found = {}
    for name, path in pages.items():
        with Store.open(folder, read_only=True) as store:
            async with serve_app(viewer_app(store, name="benchmark")) as root, httpx.AsyncClient(timeout=60) as client:
                seconds = [await _seconds(client, root + path) for _ in range(repeats + 1)]
        rest = sorted(seconds[1:])
        found[name] = {
            "first_ms": round(1000 * seconds[0], 1),
            "median_ms": round(1000 * statistics.median(rest), 1),
            "most_ms": round(1000 * rest[-1], 1),
            "first_paint_ms": await _first_paint(folder, path),
        }
    return found


async def _first_paint(folder: Path, path: str) -> float:
    async with AsyncExitStack() as stack:
        store = stack.enter_context(Store.open(folder, read_only=True))
        root = await stack.enter_async_context(serve_app(viewer_app(store, name="benchmark")))
        playwright = await stack.enter_async_context(async_playwright())
        options = {"executable_path": find_chromium(), "args": switches(BrowserConfig())}
        browser = await stack.enter_async_context(await playwright.chromium.launch(**options))
        page = await browser.new_page()
        await page.goto("about:blank")
        await page.goto(root + path)
        painted = "new Promise(done => new PerformanceObserver(list => done(list.getEntries().at(-1).startTime))"
        painted += ".observe({ type: 'paint', buffered: true }))"
        return round(await page.evaluate(painted), 1)


def _a_task(store: Store) -> str:
    return store.catalogue.episodes(EpisodeFilter(run="run-1"), limit=1)[0].key.task


async def _seconds(client: httpx.AsyncClient, url: str) -> float:
    began = time.perf_counter()
    answer = await client.get(url)
    answer.raise_for_status()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_many(Path(folder), args.episodes)
        pages = asyncio.run(measure(Path(folder), args.repeats))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "command": " ".join(["python", *sys.argv]),
        "commit": commit,
        "machine": {"cpu": platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
        "episodes": args.episodes,
        "pages": pages,
    }
    text = json.dumps(result, indent=1)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", "utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
