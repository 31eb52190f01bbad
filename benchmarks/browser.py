"""Seconds per reset and per step (act, settle, snapshot, screenshot), beside BrowserGym's on the same page.

    python benchmarks/browser.py --out browser.json
    python benchmarks/browser.py --browsergym-python VENV/bin/python       (with browsergym-miniwob 0.14.3 installed)

Both click a check box of MiniWoB++ `click-checkboxes`, in turn, each in its own Chromium of the same binary. Our reset
holds MiniWoB's START click; BrowserGym's starts the episode by script. Without BrowserGym a page of our own is clicked.
"""

import argparse
import asyncio
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from bestofq.browser.browser import Browser
from bestofq.browser.chromium import find_chromium
from bestofq.browser.session import Session
from bestofq.core.actions import Click
from bestofq.core.observation import Point

OWN_PAGE = "<!doctype html><title>own</title>" + "".join(
    f"<p><label><input type=checkbox> box {n}</label> <a href=#{n}>link {n}</a>" for n in range(40)
)
START = Point(80, 105)  # the middle of MiniWoB's START cover

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


async def ours(session: Session, url: str, steps: int, times: Times) -> None:
    """One episode of ours: a reset and some clicks, into `times`."""
    begun = time.perf_counter()
    await session.reset(url)
    if "miniwob" in url:
        await session.act(Click(point=START))
    seen = await session.snapshot(screenshot=True)
    times["reset"].append(time.perf_counter() - begun)
    for _ in range(steps):
        box = next(element.mark for element in seen.elements if element.role == "checkbox")
        begun = time.perf_counter()
        error = await session.act(Click(mark=box))
        seen = await session.snapshot(screenshot=True, error=error)
        times["step"].append(time.perf_counter() - begun)
        if error:
            raise RuntimeError(error)


async def measure(args: argparse.Namespace, root: Path) -> dict[str, Times]:
    """Seconds of each side, their episodes in turn."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    gym = BrowserGym(args.browsergym_python, f"{base}/miniwob/") if args.browsergym_python else None
    page = f"{base}/miniwob/click-checkboxes.html" if gym else f"{base}/index.html"
    found: dict[str, Times] = {
        name: {"reset": [], "step": []} for name in (["ours", "browsergym"] if gym else ["ours"])
    }
    async with Browser.launch() as browser:
        session = Session(browser)
        for episode in range(args.episodes + 1):  # the first warms both up
            await ours(session, page, args.steps, found["ours"])
            if gym:
                theirs = found["browsergym"]
                theirs["reset"].append(await asyncio.to_thread(gym.ask, f"reset {args.seed + episode}"))
                for _ in range(args.steps):
                    theirs["step"].append(await asyncio.to_thread(gym.ask, "click"))
            if episode == 0:
                for times in found.values():
                    times["reset"].clear()
                    times["step"].clear()
        await session.close()
    if gym:
        gym.close()
    server.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browsergym-python", default="", help="Python of an environment with browsergym-miniwob")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3, help="clicks per episode")
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
        side: {kind: statistics.median(seconds) * 1000 for kind, seconds in times.items()}
        for side, times in found.items()
    }
    lines = [
        f"{'median ms':12}" + "".join(f"{side:>12}" for side in medians) + ("   ratio" if len(medians) > 1 else "")
    ]
    for kind in ("reset", "step"):
        row = [medians[side][kind] for side in medians]
        ratio = f"{row[1] / row[0]:8.1f}" if len(row) > 1 else ""
        lines.append(f"{kind:12}" + "".join(f"{value:12.1f}" for value in row) + ratio)
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
