"""Ways back to a page of a search (Agent Q, 5.1.2): seconds each takes, side by side, in Chromium and as text.

    python benchmarks/backtracking.py --out backtracking.json

Of the shop and of the booking site, at depths 2, 5 and 10: an episode is played so deep by random actions that end
nothing, and saved; then it is put back in the text world, where that is a copy, put back in Chromium from what
was saved (the browser's page and the site's record), and reached in Chromium by carrying out its actions again. Before
each the environment begins another visit, so that none finds the page still there. What saving takes is told too: a
search pays it at every page it visits.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Click, Write
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Checkpointable, Env
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from bestofq_sites.webshop.suite import synthetic_suite

DEPTHS = (2, 5, 10)
WAYS = ("text copy", "restored", "replayed", "saving")
Irreversible = Callable[[Observation, Action], bool]
Times = dict[str, list[float]]


async def walk(env: Env, task: Task, depth: int, irreversible: Irreversible, rng: random.Random) -> list[Action]:
    """So many actions from the start that end nothing: clicks, and now and then a field filled in."""
    seen, actions = await env.reset(task, seed=0), list[Action]()
    while len(actions) < depth:
        element = rng.choice(seen.elements)
        action: Action = Click(mark=element.mark)
        if element.role in ("searchbox", "textbox"):
            action = Write(mark=element.mark, text="lamp", enter=element.role == "searchbox")
        if irreversible(seen, action):
            continue
        seen = (await env.step(action)).observation
        actions.append(action)
    return actions


async def back(times: list[float], seen: Observation, work: Awaitable[Observation]) -> None:
    """Times one way back; RuntimeError where it led elsewhere."""
    begun = time.perf_counter()
    found = await work
    times.append(time.perf_counter() - begun)
    if found.text != seen.text:
        raise RuntimeError(f"back at {found.url} instead of {seen.url}")


async def compare(
    text: Env, web: Env, tasks: list[Task], irreversible: Irreversible, repeats: int, rng: random.Random
) -> dict[int, Times]:
    """Seconds of each way at each depth, in turn."""
    assert isinstance(text, Checkpointable)
    assert isinstance(web, Checkpointable)
    found: dict[int, Times] = {}
    for depth in DEPTHS:
        times = found[depth] = {way: [] for way in WAYS}
        for number in range(repeats + 1):  # the first warms all of them up
            task, elsewhere = rng.sample(tasks, 2)
            actions = await walk(text, task, depth, irreversible, rng)
            copy, seen = await text.save(), await replay(web, task, actions)
            begun = time.perf_counter()
            saved = await web.save()
            times["saving"].append(time.perf_counter() - begun)
            for env in (text, web):
                await env.reset(elsewhere, seed=0)
            await back(times["text copy"], seen, text.restore(copy))
            await back(times["restored"], seen, web.restore(saved))
            await web.reset(elsewhere, seed=0)
            await back(times["replayed"], seen, replay(web, task, actions))
            if number == 0:
                for seconds in times.values():
                    seconds.clear()
    return found


async def replay(env: Env, task: Task, actions: list[Action]) -> Observation:
    seen = await env.reset(task, seed=0)
    for action in actions:
        seen = (await env.step(action)).observation
    return seen


async def measure(args: argparse.Namespace) -> dict[str, dict[int, Times]]:
    rng = random.Random(args.seed)
    shop, booking = synthetic_suite(), Booking()
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(Browser.launch())
        products = await stack.enter_async_context(serve(shop))
        tables = await stack.enter_async_context(serve(booking))
        worlds: dict[str, tuple[Env, Env, list[Task], Irreversible]] = {
            "webshop": (TextEnv(shop), LocalWebEnv(products, browser), shop.tasks("dev"), shop.irreversible),
            "booking": (TextEnv(booking), LocalWebEnv(tables, browser), booking.tasks("dev"), booking.irreversible),
        }
        found = {}
        for name, (text, web, tasks, irreversible) in worlds.items():
            found[name] = await compare(text, web, tasks, irreversible, args.repeats, rng)
            await web.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="pages a depth and site")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    found = asyncio.run(measure(args))
    medians = {
        site: {depth: {way: statistics.median(times[way]) * 1000 for way in WAYS} for depth, times in depths.items()}
        for site, depths in found.items()
    }
    lines = [f"{'median ms':10}{'depth':>6}" + "".join(f"{way:>12}" for way in WAYS) + "   replayed / restored"]
    for site, depths in medians.items():
        for depth, row in depths.items():
            cells = "".join(f"{row[way]:12.2f}" for way in WAYS)
            lines.append(f"{site:10}{depth:6}{cells}{row['replayed'] / row['restored']:14.1f}")
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
            "median_ms": medians,
            "seconds": found,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
