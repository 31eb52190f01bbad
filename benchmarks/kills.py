"""kill -9 at random moments of every long command: what its endpoint served against what is stored in the end.

    python benchmarks/kills.py --kills 6 --out benchmarks/results/kills.json

Each command runs once through, then again in a folder of its own where it is killed at moments that are uniform over
the time it took, and begun again by the same words, to its end. `served`: replies that left the endpoint whole;
`stored`: those that episodes, trees or verdicts count. What lies between is what was under way at the kills.
`same`: both folders hold the same in the end, but for times and ids.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

sys.path.extend(str(Path(__file__).parent.parent / "tests" / part) for part in ("..", "", "cli", "interop", "learning"))
from forked import Forked, forking
from logs import shop_episode
from test_judge_command import hasty, shopped
from test_preferences import CONFIG, step_pairs, tiny_model
from test_search_command import shopper
from test_serve_command import SCHEMA

from bestofq.cli.commands import app
from bestofq.core.frozen import FrozenModel
from bestofq.learning.tuning import train_policy
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

PRELOADED = ("torch", "transformers", "bestofq.cli.eval", "bestofq.cli.judge", "bestofq.recipes.q_training")
Reply = Callable[[Mapping[str, Any]], str]


@dataclass(kw_only=True)
class Case:
    """A command: its words in a folder, given the endpoint's address; what its endpoint says; what it leaves."""

    words: Callable[[Path, str], list[str]]
    stored: Callable[[Path], int]
    result: Callable[[Path], object]
    reply: Reply = shopper
    prepare: Callable[[Path], Awaitable[object]] | None = None
    program: Callable[..., object] = app
    drive: Callable[[Forked, Path], Coroutine[Any, Any, object]] | None = (
        None  # of a server: who asks it, until all is asked
    )
    served: int = field(default=0, init=False)

    def answer(self, request: Mapping[str, Any]) -> str:
        said = self.reply(request)
        self.served += 1
        return said


def setting(**values: object) -> list[str]:
    return [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]


def bare(noun: FrozenModel) -> Any:
    """As JSON, without what differs each time."""
    volatile = {"usage", "started_at", "command", "id", "seconds", "back"}

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: kept(one) for name, one in value.items() if name not in volatile}
        return [kept(one) for one in value] if isinstance(value, list) else value

    return kept(noun.model_dump(mode="json"))


def episodes(folder: Path) -> list[Any]:
    with Store.open(folder / "store", read_only=True) as store:
        return [bare(episode) for episode in store.episodes()]


def steps(folder: Path) -> int:
    with Store.open(folder / "store", read_only=True) as store:
        return sum(len(episode.steps) for episode in store.episodes(status=None))


def trees(folder: Path) -> list[Any]:
    with Store.open(folder / "store", read_only=True) as store:
        return [bare(tree) for run in store.runs() for tree in store.trees.all(run.name)]


def tree_calls(folder: Path) -> int:
    with Store.open(folder / "store", read_only=True) as store:
        found = [tree for run in store.runs() for tree in store.trees.all(run.name)]
    return sum(used.calls for tree in found for used in tree.usage)


def verdicts(folder: Path) -> int:
    with Store.open(folder / "store", read_only=True) as store:
        return sum(len(of) for of in store.verdicts().values())


def judged(folder: Path) -> list[Any]:
    with Store.open(folder / "store", read_only=True) as store:
        tasks = {summary.id: summary.key.task for summary in store.summaries()}
        found = [(tasks[id_], v.outcome) for of in store.verdicts().values() for id_, v in of.items()]
    return sorted(found)


def files(folder: Path, *patterns: str) -> list[str]:
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return [f"{path.name} {sha256(path.read_bytes()).hexdigest()[:16]}" for path in found]


async def logged(folder: Path) -> None:
    lines = (json.dumps(shop_episode(number)) for number in range(400))
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


async def explored(folder: Path) -> None:
    done = Forked(
        folder / "log", app, ["collect", "webshop", "--store", str(folder / "store"), "--tasks", "4", "--repeats", "1"]
    )
    assert await asyncio.to_thread(done.wait) == 0, done.said


def tune(folder: Path) -> None:
    train_policy(tiny_model(), step_pairs(12), CONFIG, lambda _: None, out=folder / "policy")


async def ask(process: Forked, folder: Path) -> None:
    """A client of `serve`: thirty tasks of four requests, each asked again until it is answered."""
    state = folder / "asked"
    number = int(state.read_text()) if state.exists() else 0
    async with httpx.AsyncClient(timeout=20) as client:
        while number < 120 and process.runs:
            page = f"<browser_state>\n[1]<a />\n\tshoes {number}\n[2]<a />\n\thats\n</browser_state>"
            asks = {
                "model": "m",
                "messages": [{"role": "user", "content": f"<user_request>task {number // 4}</user_request>{page}"}],
                "response_format": {"type": "json_schema", "json_schema": SCHEMA},
            }
            last = re.findall(r"(http://127.0.0.1:\d+)/v1 stands", process.said)[
                -1:
            ]  # earlier ones are of dead processes
            try:
                address = f"{''.join(last)}/sessions/s{number // 4}/v1/chat/completions"
                answered = (await client.post(address, json=asks)).status_code == 200
            except (httpx.HTTPError, httpx.UnsupportedProtocol):
                answered = False
            if answered:
                number += 1
                state.write_text(str(number))
            else:
                await asyncio.sleep(0.02)
    process.kill()


CASES: dict[str, Case] = {
    "collect": Case(
        words=lambda folder, url: [
            *("collect", "webshop", "--store", str(folder / "store"), "--tasks", "6", "--repeats", "1"),
            *setting(endpoints__chat__model="m", endpoints__chat__base_url=url, suite__seed=3, suite__concurrency=2),
        ],
        stored=steps,
        result=episodes,
    ),
    "search": Case(
        words=lambda folder, url: [
            *("search", "webshop", "--store", str(folder / "store"), "--tasks", "3"),
            *setting(endpoints__chat__model="m", endpoints__chat__base_url=url, suite__seed=3),
            *setting(agent_q__search__iterations=8, agent_q__search__candidates=3),
        ],
        stored=tree_calls,
        result=trees,
    ),
    "judge": Case(
        words=lambda folder, url: [
            *("judge", "--store", str(folder / "store"), "--run", "shop", "--model", "m", "--base-url", url),
            "--against-env",
        ],
        stored=verdicts,
        result=judged,
        reply=hasty,
        prepare=lambda folder: shopped(folder / "store"),
    ),
    "import": Case(
        words=lambda folder, _: ["import", "jsonl", str(folder / "log.jsonl"), "--store", str(folder / "store")],
        stored=lambda _: 0,
        result=lambda folder: sorted(map(json.dumps, episodes(folder))),
        prepare=logged,
    ),
    "train": Case(
        words=lambda folder, _: [
            *("train", "webshop", "--store", str(folder / "store"), "--out", str(folder / "q")),
            *setting(iql__steps=300, iql__batch_size=8, iql__network__hidden="[16, 8]", iql__checkpoint_seconds=1),
        ],
        stored=lambda _: 0,
        result=lambda folder: files(folder, "q/*.safetensors"),
        prepare=explored,
    ),
    "tune": Case(
        words=lambda folder, _: [],
        stored=lambda _: 0,
        result=lambda folder: files(folder, "policy/model/*.safetensors"),
        program=tune,
    ),
    "agent-q": Case(
        words=lambda folder, _: [
            *("agent-q", "booking", "--store", str(folder / "store"), "--rounds", "1", "--model", "pocket-agentq"),
            *setting(model__dialect="composite", agent_q__tasks=2, agent_q__search__iterations=3),
            *setting(
                agent_q__search__candidates=2, agent_q__threshold=0.0, agent_q__dpo__epochs=1, suite__step_limit=6
            ),
        ],
        stored=lambda _: 0,
        result=lambda folder: (trees(folder), files(folder, "**/policy-1/model/*.safetensors")),
    ),
    "serve": Case(
        words=lambda folder, url: ["serve", "--upstream", url, "--store", str(folder / "store"), "--port", "0"],
        stored=steps,
        result=lambda _: None,
        reply=lambda _: json.dumps({"action": [{"click": {"index": 1}}]}),
        drive=ask,
    ),
}


async def run_once(case: Case, folder: Path, url: str, kill_after: float | None) -> bool:
    """Whether the command came to its end."""
    given = (folder,) if case.program is tune else (case.words(folder, url),)
    process = Forked(folder / "log", case.program, *given, OPENAI_API_KEY="none")
    ending: asyncio.Task[object]
    ending = asyncio.create_task(case.drive(process, folder) if case.drive else asyncio.to_thread(process.wait))
    done, _ = await asyncio.wait([ending], timeout=kill_after)
    if not done:
        os.kill(process.pid, 9)
        await asyncio.wait([ending])
        await asyncio.to_thread(process.wait)
        return False
    status = await asyncio.to_thread(process.wait)
    assert status == (-9 if case.drive else 0), process.said[-3000:]
    return True


async def measure(name: str, case: Case, root: Path, kills: int, rng: random.Random) -> dict[str, object]:
    found: dict[str, dict[str, Any]] = {}
    seconds = 0.0
    for kind in ("through", "killed"):
        folder = root / name / kind
        folder.mkdir(parents=True)
        if case.prepare is not None:
            await case.prepare(folder)
        case.served, killed = 0, 0
        async with FaultServer(case.answer, seconds=0.01) as server:
            for _ in range(kills if kind == "killed" else 0):
                ended = await run_once(case, folder, server.base_url, rng.uniform(0.0, seconds))
                killed += not ended
            began = time.perf_counter()
            await run_once(case, folder, server.base_url, None)
            seconds = time.perf_counter() - began
        stored = case.stored(folder)
        found[kind] = {"killed": killed, "served": case.served, "stored": stored, "result": case.result(folder)}
    same = found["through"].pop("result") == found["killed"].pop("result")
    return {"seconds": round(seconds, 1), **found, "same": same}


async def campaign(names: list[str], kills: int, seed: int) -> dict[str, object]:
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            found[name] = await measure(name, CASES[name], Path(root), kills, random.Random(f"{seed} {name}"))
            sys.stderr.write(f"{name}: {json.dumps(found[name])}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[*CASES], choices=[*CASES])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for module in PRELOADED:
        import_module(module)
    with forking():
        found = asyncio.run(campaign(given.only, given.kills, given.seed))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    command = f"python benchmarks/kills.py --kills {given.kills} --seed {given.seed} --only {' '.join(given.only)}"
    body = json.dumps({"command": command, "commit": commit, "machine": machine, "commands": found}, indent=2)
    sys.stdout.write(body + "\n")
    if given.out:
        given.out.write_text(body + "\n")


if __name__ == "__main__":
    main()
