"""How many consequences are seen after an act or a load, and how long that takes: ours beside four other waits.

    python benchmarks/settling.py --out benchmarks/results/settling.json
    python benchmarks/settling.py --browsergym-python VENV/bin/python --browser-use-python VENV/bin/python

Every page shows a number in the end, by itself or after a click (`settling_pages.py`). A side has seen it if it is in
the first observation. Seconds are those of the click or the load with observation and screenshot. Raw Playwright waits
for `networkidle`, 5 s at most, or for 500 ms. BrowserGym and browser-use wait as they do by default.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, async_playwright
from settling_pages import HELD_OUT, Case, LateServer, make_cases

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium
from bestofq.browser.config import BrowserConfig
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Click, Goto
from bestofq.core.errors import BestOfQError
from bestofq.reports.costs import CostPoint, points_svg

Visit = Callable[[str, bool], Awaitable[tuple[float, str]]]
PATIENCE = 10.0  # seconds that count if a side failed
PROMPT = 1.5  # seconds in which a restless page must end


class Result(NamedTuple):
    """One page on one side."""

    path: str
    kind: str
    restless: bool
    seen: bool
    seconds: float


async def visit_ours(session: BrowserSession, url: str, click: bool) -> tuple[float, str]:
    begun = time.perf_counter()
    if not session.start_url:
        await session.reset(url)
    await session.act(Goto(url=url))
    seen = await session.snapshot(screenshot=True)
    if click:
        mark = next(element.mark for element in seen.elements if element.name == "Go")
        begun = time.perf_counter()
        error = await session.act(Click(mark=mark))
        seen = await session.snapshot(screenshot=True, error=error)
    return time.perf_counter() - begun, seen.text


async def visit_raw(page: Page, idle: bool, url: str, click: bool) -> tuple[float, str]:
    async def look() -> str:
        if idle:
            with suppress(PlaywrightError):
                await page.wait_for_load_state("networkidle", timeout=5_000)
        else:
            await page.wait_for_timeout(500)
        texts = [await frame.locator("body").inner_text() for frame in page.frames]
        await page.screenshot(type="jpeg", quality=70)
        return "\n".join(texts)

    begun = time.perf_counter()
    await page.goto(url)
    if click:
        begun = time.perf_counter()
        await page.click("#go")
    text = await look()
    return time.perf_counter() - begun, text


class Worker:
    """A peer in an environment of its own."""

    def __init__(self, python: str, side: str) -> None:
        command = [python, str(Path(__file__).with_name("settling_worker.py")), side, str(find_chromium() or "")]
        log = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    async def visit(self, url: str, click: bool) -> tuple[float, str]:
        answer = await asyncio.to_thread(self._ask, json.dumps({"url": url, "click": click}))
        return answer["seconds"] or float("nan"), answer["text"]

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


async def measure(args: argparse.Namespace, cases: list[Case]) -> dict[str, list[Result]]:
    """The results of each side; the sides take turns on every page."""
    server = LateServer(cases)
    results: dict[str, list[Result]] = {}
    known: dict[tuple[str, str], Result] = {}
    if args.rows and args.rows.exists():
        for line in args.rows.read_text("utf-8").splitlines():
            name, *values = json.loads(line)
            known[name, values[0]] = Result(*values)
    sides: dict[str, Visit] = {}
    async with (
        Browser.launch() as patient,
        Browser.launch(BrowserConfig(settle="instant")) as instant,
        async_playwright() as playwright,
    ):
        chromium = await playwright.chromium.launch(executable_path=find_chromium())
        page = await chromium.new_page(viewport={"width": 1280, "height": 720})
        ours, at_once = BrowserSession(patient), BrowserSession(instant)
        sides["ours"] = lambda url, click: visit_ours(ours, url, click)
        sides["ours, instant"] = lambda url, click: visit_ours(at_once, url, click)
        sides["Playwright, networkidle"] = lambda url, click: visit_raw(page, True, url, click)
        sides["Playwright, 500 ms"] = lambda url, click: visit_raw(page, False, url, click)
        workers = [
            (name, Worker(python, side))
            for name, side, python in (
                ("BrowserGym 0.14.3", "browsergym", args.browsergym_python),
                ("browser-use 0.13", "browser-use", args.browser_use_python),
            )
            if python
        ]
        sides |= {name: worker.visit for name, worker in workers}
        sides = {name: visit for name, visit in sides.items() if not args.side or name in args.side}
        for visit in sides.values():  # warms up
            await visit(server.root + cases[0].path, cases[0].click)
        results = {name: [] for name in sides}
        for case in cases:
            for name, visit in sides.items():
                if row := known.get((name, case.path)):
                    results[name].append(row)
                    continue
                try:
                    seconds, text = await visit(server.root + case.path, case.click)
                except (PlaywrightError, BestOfQError, RuntimeError) as error:  # it has seen nothing
                    seconds, text = float("nan"), str(error)
                seen = case.text in text.replace("\n", " ")
                row = Result(case.path, case.kind, case.restless, seen, seconds)
                results[name].append(row)
                if args.rows:
                    with args.rows.open("a", encoding="utf-8") as rows:
                        rows.write(json.dumps([name, *row]) + "\n")
                if args.verbose:
                    mark = "" if seen else f"  MISSED {text[-80:]!r}"
                    sys.stdout.write(f"{case.path:28} {name:24} {seconds:6.2f} s{mark}\n")
                    sys.stdout.flush()
        for _, worker in workers:
            worker.close()
        await ours.close()
        await at_once.close()
        await chromium.close()
    server.close()
    return results


def summarize(results: list[Result]) -> dict[str, float | int]:
    """The numbers of one side."""
    results = [result._replace(seconds=PATIENCE if isnan(result.seconds) else result.seconds) for result in results]
    held = [result for result in results if result.kind in HELD_OUT]
    restless = [result.seconds for result in results if result.restless]
    static = [result.seconds for result in results if result.kind.startswith("static")]
    numbers = {
        "pages": len(results),
        "seen": sum(result.seen for result in results),
        "held_out_pages": len(held),
        "held_out_seen": sum(result.seen for result in held),
        "median_seconds": statistics.median(result.seconds for result in results),
    }
    if restless:
        numbers["restless_median_seconds"] = statistics.median(restless)
        numbers["restless_within_1.5_s"] = sum(seconds <= PROMPT for seconds in restless) / len(restless)
    if static:
        numbers["static_median_seconds"] = statistics.median(static)
    return numbers


def iterate_lines(sides: dict[str, dict[str, float | int]]) -> Iterator[str]:
    yield f"{'':26}{'seen':>10}{'held out':>10}{'median s':>10}{'restless':>10}{'≤ 1.5 s':>10}{'static':>10}"
    for name, side in sides.items():
        shares = f"{side['seen'] / side['pages']:10.1%}"
        shares += f"{side['held_out_seen'] / side['held_out_pages']:10.1%}" if side["held_out_pages"] else f"{'–':>10}"
        shares += f"{side['median_seconds']:10.2f}{side.get('restless_median_seconds', 0):10.2f}"
        shares += f"{side.get('restless_within_1.5_s', 0):10.0%}{side.get('static_median_seconds', 0):10.3f}"
        yield f"{name:26}{shares}"


def draw(sides: dict[str, dict[str, float | int]]) -> str:
    """Recall against median seconds, as the SVG of the reports' cost figure."""
    points = [CostPoint(name, s["median_seconds"] * 1000, s["seen"] / s["pages"], None) for name, s in sides.items()]
    svg = str(points_svg(points, "Playwright, 500 ms"))
    for before, after in {
        "Success against the cost of a task": "Consequences seen against median milliseconds",
        "tokens per task (not every price is known)": "median milliseconds of a step",
    }.items():
        svg = svg.replace(before, after)
    return svg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browsergym-python", default="", help="Python of an environment with browsergym-core")
    parser.add_argument("--browser-use-python", default="", help="Python of an environment with browser-use")
    parser.add_argument("--side", action="append", help="only this side; may be repeated")
    parser.add_argument("--kind", action="append", help="only this kind; may be repeated")
    parser.add_argument("--rows", type=Path, help="JSON lines of the pages that are done: the run continues after them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="a line for each page and side")
    parser.add_argument("--out", type=Path, help="JSON file for the result; the figure is written next to it")
    args = parser.parse_args()
    cases = [case for case in make_cases(args.seed) if not args.kind or case.kind in args.kind]
    results = asyncio.run(measure(args, cases))
    sides = {name: summarize(rows) for name, rows in results.items()}
    sys.stdout.write("\n".join(iterate_lines(sides)) + "\n")
    if args.out:
        git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": git.stdout.strip(),
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()},
            "kinds": len({case.kind for case in cases}),
            "sides": sides,
            "missed": {name: sorted({row.kind for row in rows if not row.seen}) for name, rows in results.items()},
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")
        args.out.with_suffix(".svg").write_text(draw(sides))


if __name__ == "__main__":
    main()
