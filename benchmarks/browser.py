"""Milliseconds per reset and per step, beside raw Playwright's and BrowserGym's on the same page.

    python benchmarks/browser.py --out browser.json
    python benchmarks/browser.py --browsergym-python VENV/bin/python       (with browsergym-miniwob 0.14.3 and miniwob)

A step of ours is act, settle, snapshot and screenshot; `step, no picture` leaves the last out. Raw Playwright clicks,
takes its own snapshot of the page (`aria_snapshot`) and a screenshot, and waits for nothing. All click a check box of
MiniWoB++ `click-checkboxes`, in turn, each in a Chromium of the same binary. The resets of ours and of raw Playwright
hold MiniWoB's START click; BrowserGym's starts the episode by script. Without BrowserGym a page of our own is clicked.
"""

import argparse
import asyncio
import functools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import Page, async_playwright

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Click
from bestofq.core.observation import Point

OWN_PAGE = "<!doctype html><title>own</title>" + "".join(
    f"<p><label><input type=checkbox> box {n}</label> <a href=#{n}>link {n}</a>" for n in range(40)
)
START = Point(80, 105)  # the middle of MiniWoB's START cover

KINDS = ("reset", "step", "step, no picture")

Times = dict[str, list[float]]


class Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return


class BrowserGym:
    """The worker process, asked one thing at a time."""

    def __init__(self, python: str, url: str) -> None:
        worker = Path(__file__).with_name("browsergym_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker), str(find_chromium() or "")],
            env={**os.environ, "MINIWOB_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["error"]:
            raise RuntimeError(f"BrowserGym: {answer['error']}")
        return float(answer["seconds"])

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def clock(times: list[float]) -> Iterator[None]:
    """Adds the seconds of a block."""
    begun = time.perf_counter()
    yield
    times.append(time.perf_counter() - begun)


async def ours(session: BrowserSession, url: str, steps: int, times: Times, pause: float) -> None:
    """One episode of ours: a reset and some clicks, into `times`."""
    with clock(times["reset"]):
        await session.reset(url)
        if "miniwob" in url:
            await session.act(Click(point=START))
        seen = await session.snapshot(screenshot=True)
    for picture in (True, False):
        for _ in range(steps):
            await asyncio.sleep(pause)
            box = next(element.mark for element in seen.elements if element.role == "checkbox")
            with clock(times["step" if picture else "step, no picture"]):
                error = await session.act(Click(mark=box))
                seen = await session.snapshot(screenshot=picture, error=error)
            if error:
                raise RuntimeError(error)


async def raw(page: Page, url: str, steps: int, times: Times, pause: float) -> None:
    """The same by Playwright alone, in one page that is kept."""

    async def look(picture: bool) -> None:
        await page.locator("body").aria_snapshot()
        if picture:
            await page.screenshot(type="jpeg", quality=70)

    with clock(times["reset"]):
        await page.goto(url)
        if "miniwob" in url:
            await page.mouse.click(*START)
        await look(True)
    for picture in (True, False):
        for _ in range(steps):
            await asyncio.sleep(pause)
            with clock(times["step" if picture else "step, no picture"]):
                await page.get_by_role("checkbox").first.click()
                await look(picture)


async def measure(args: argparse.Namespace, root: Path) -> dict[str, Times]:
    """Seconds of each side, their episodes in turn."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    gym = BrowserGym(args.browsergym_python, f"{base}/miniwob/") if args.browsergym_python else None
    page = f"{base}/miniwob/click-checkboxes.html" if gym else f"{base}/index.html"
    found: dict[str, Times] = {
        name: {kind: [] for kind in KINDS} for name in ["ours", "playwright", *(["browsergym"] if gym else [])]
    }
    async with Browser.launch() as browser, async_playwright() as playwright:
        session = BrowserSession(browser)
        chromium = await playwright.chromium.launch(executable_path=find_chromium())
        own = await chromium.new_page(viewport={"width": browser.config.width, "height": browser.config.height})
        for episode in range(args.episodes + 1):  # the first warms all up
            await ours(session, page, args.steps, found["ours"], args.pause)
            await raw(own, page, args.steps, found["playwright"], args.pause)
            if gym:
                theirs = found["browsergym"]
                theirs["reset"].append(await asyncio.to_thread(gym.ask, f"reset {args.seed + episode}"))
                for _ in range(args.steps):
                    await asyncio.sleep(args.pause)
                    theirs["step"].append(await asyncio.to_thread(gym.ask, "click"))
            if episode == 0:
                for seconds in (seconds for times in found.values() for seconds in times.values()):
                    seconds.clear()
        await session.close()
        await chromium.close()
    if gym:
        gym.close()
    server.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browsergym-python", default="", help="Python of an environment with browsergym-miniwob")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3, help="clicks per episode")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds before each click, as an agent thinks; not counted"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        if args.browsergym_python:
            where = "import miniwob, pathlib; print(pathlib.Path(miniwob.__file__).parent / 'html')"
            root = Path(subprocess.check_output([args.browsergym_python, "-c", where], text=True).strip())
        else:
            (root / "index.html").write_text(OWN_PAGE)
            sys.stdout.write("BrowserGym is left out: give --browsergym-python to measure it beside ours.\n")
        found = asyncio.run(measure(args, root))
    medians = {
        side: {kind: statistics.median(seconds) * 1000 for kind, seconds in times.items() if seconds}
        for side, times in found.items()
    }
    lines = [f"{'median ms':18}" + "".join(f"{side:>12}" for side in medians)]
    lines += [f"{kind:18}" + "".join(f"{row.get(kind, math.nan):12.1f}" for row in medians.values()) for kind in KINDS]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.out:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": commit,
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()},
            "page": "miniwob click-checkboxes" if args.browsergym_python else "own",
            "median_ms": medians,
            "seconds": found,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
