"""The paper's WebVoyager run by its own config file, smaller in its numbers only: stand-in sites under their real
names, one scripted endpoint for policy, localizer, picker and judge, a tiny Qwen2.5-VL that embeds."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from forked import Forked
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from tiny_vision import save_tiny_vision
from typer.testing import CliRunner, Result

from bestofq.core.errors import SetupError
from bestofq.envs.serving import serve_app
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from experiments.__main__ import app
from experiments.best_of_q import AT_ENDPOINT

CONFIG = Path(__file__).parents[2] / "experiments" / "webvoyager-paper" / "config.toml"
SITES = {"Allrecipes": "www.allrecipes.com", "ArXiv": "arxiv.org", "ESPN": "www.espn.com"}
WORDS = {"Allrecipes": "Which soup is best?", "ArXiv": "How many papers are new?", "ESPN": "Who won?"}
SEEDS, CYCLES, RUNS = 2, 1, 1
EPISODES = len(SITES) * (SEEDS + CYCLES + len(AT_ENDPOINT) * RUNS)
PASSES = {"seed_runs": SEEDS, "cycles": CYCLES, "runs_per_cycle": 1, "suite.concurrency": 3}
VIEW = {"suite.browser.width": 640, "suite.browser.height": 400}
STEPS = {"iql.steps": 20, "iql.batch_size": 16, "iql.network.project": 16, "iql.network.hidden": [32, 16]}
LINKS = {"News": 100, "Archive": 300}  # by their distance from the top of a page


async def page(request: Request) -> HTMLResponse:
    """The answer stands behind News; behind Archive is nothing. ESPN asks for a host that no task allows."""
    host, path = request.headers["host"].partition(":")[0], request.url.path
    if host not in SITES.values():
        return HTMLResponse("", 404)
    links = "".join(
        f"<a href=/{name} style='position:absolute;left:0;top:{top}px;width:600px;height:80px'>{name}</a>"
        for name, top in LINKS.items()
    )
    beside = "<img src=http://cdn.cookielaw.org/banner.png>" if "espn" in host else ""
    text = "The answer is leek." if path == "/News" else "Nothing."
    return HTMLResponse(f"<title>{host}{path}</title><p>{text}</p>{links if path == '/' else ''}{beside}")


class Endpoint:
    """Proposes the wrong link first, answers what the page says, picks the last; `kill` ends a process by its request
    number `at`."""

    def __init__(self) -> None:
        self.calls = 0
        self.kill: tuple[int, int] | None = None

    def __call__(self, request: Mapping[str, Any]) -> str:
        self.calls += 1
        if self.kill and self.kill[0] == self.calls:
            os.kill(self.kill[1], signal.SIGKILL)
        messages = [one["content"] for one in request["messages"]]
        system, said = (one if isinstance(one, str) else one[0]["text"] for one in (messages[0], messages[-1]))
        if "The element:" in said:
            top = next(top for name, top in LINKS.items() if f"The element: {name}" in said)
            return json.dumps({"x": 100, "y": top + 40})
        if '"verdict"' in system:
            won = "leek" in said.partition("What the agent did")[0].partition("\n\n")[2]
            return json.dumps({"reason": "so", "verdict": "success" if won else "failure"})
        if '"best"' in system:
            return json.dumps({"reasoning": "so", "best": 1})
        if "The answer is leek." in said:
            actions: list[dict[str, Any]] = [{"type": "answer", "text": "leek"}, {"type": "go_back"}]
        elif "Nothing." in said and "Archive [" not in said:
            actions = [{"type": "answer", "text": "I cannot tell"}, {"type": "go_back"}]
        else:
            actions = [{"type": "click", "element": name} for name in reversed(LINKS)]
        n = 1 if "Offer the one next action" in system else 3
        return json.dumps({"candidates": [{"thought": "so", "note": "", "action": one} for one in actions[:n]]})


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[FaultServer]:
    names = ("Qwen/Qwen2.5-VL-7B-Instruct", "Hcompany/Holo1.5-7B", "gpt-4.1")
    async with FaultServer(Endpoint(), models=names) as server:
        yield server


@pytest_asyncio.fixture
async def given(tmp_path: Path, endpoint: FaultServer) -> AsyncIterator[list[str]]:
    """The command's options: the config file, where all is, and the small numbers."""
    lines = [
        {"web_name": name, "id": f"{name}--0", "ques": WORDS[name], "web": f"http://{host}/"}
        for name, host in SITES.items()
    ]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    async with serve_app(Starlette(routes=[Route("/{path:path}", page)])) as root:
        port = root.rpartition(":")[2]
        mapped = ", ".join(f"MAP {host} 127.0.0.1:{port}" for host in SITES.values())
        rules = json.dumps([f"--host-resolver-rules={mapped}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        urls = {f"endpoints.{name}.base_url": endpoint.base_url for name in ("chat", "localizer_chat", "judge")}
        where = {"suite.browser.arguments": rules, "model.embedder": save_tiny_vision(tmp_path / "tiny")}
        settings = [f"--set={name}={value}" for name, value in {**urls, **where, **PASSES, **VIEW, **STEPS}.items()]
        yield ["best-of-q", f"--config={CONFIG}", f"--data={tasks}", "--dev-tasks=0", f"--runs={RUNS}", *settings]


async def invoked(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def finished(folder: Path) -> dict[tuple[object, ...], str]:
    """The id of each finished episode, by what it is. No two are the same."""
    with Store.open(folder, read_only=True) as store:
        found = [one for run in store.runs() for one in store.summaries(run=run.name)]
    ids = {(one.run, one.agent, *one.key): one.id for one in found}
    assert len(ids) == len(found)
    return ids


async def test_all_passes_all_tables_and_the_same_after_a_kill(
    tmp_path: Path, endpoint: FaultServer, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_width", 200)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = await invoked(*given, f"--out={whole}", f"--results={whole}/results")
    assert done.exit_code == 0, done.output
    assert isinstance(endpoint.reply, Endpoint)
    calls = endpoint.reply.calls
    assert len(finished(whole)) == EPISODES

    planned = await invoked(*given, f"--out={whole}", f"--runs={RUNS + 1}", "--dry-run")
    (last,) = (line.split() for line in planned.output.splitlines() if line.startswith("all "))
    assert last[1] == str(len(SITES) * len(AT_ENDPOINT))  # of one pass more
    assert endpoint.reply.calls == calls

    again = [*given, f"--out={killed}", f"--results={killed}/results"]
    process = Forked(tmp_path / "log", app, again)
    endpoint.reply.calls, endpoint.reply.kill = 0, (calls // 2, process.pid)
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL, process.said
    before = finished(killed)
    assert 0 < len(before) < EPISODES
    endpoint.reply.kill = None
    done = await invoked(*again)
    assert done.exit_code == 0, done.output
    after = finished(killed)
    assert len(after) == EPISODES
    assert before.items() <= after.items()

    tables = [(folder / "results" / "table.md").read_text("utf-8") for folder in (whole, killed)]
    assert tables[0] == tables[1]
    results = [json.loads((folder / "results" / "result.json").read_text("utf-8")) for folder in (whole, killed)]
    for part in ("collected", "dev_curve", "test"):
        assert results[0][part] == results[1][part]
    assert results[0]["by_domain"]["rows"] == results[1]["by_domain"]["rows"]
    assert [row["agent"] for row in results[0]["test"]["rows"]] == [*AT_ENDPOINT]
    assert [*dict.fromkeys(row["values"][0] for row in results[0]["by_domain"]["rows"])] == [*SITES, "all"]
    assert [one["episodes"] for one in results[0]["collected"].values()] == [6, 3]
    for name in ("success.svg", "curve.svg", "cost.svg"):
        assert (whole / "results" / name).stat().st_size
    roles = {row["agent"]: set(row["roles"]) for row in results[0]["costs"]["rows"]}
    assert roles["best-of-q"] == {"proposer", "localizer", "embedder"}
    assert Counter(name for row in roles.values() for name in row)["critic"] == 1


async def test_a_dry_run_prices_and_checks_all_of_it(
    tmp_path: Path, endpoint: FaultServer, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_width", 200)
    out = tmp_path / "out"
    done = await invoked(*given, f"--out={out}", "--dry-run")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines() if "×" in line or line.startswith("all ")]
    assert [row[:2] for row in rows[:2]] == [["seed", "explore"], ["cycle-1", "best-of-q"]]
    assert [row[1] for row in rows[2:-1]] == [*AT_ENDPOINT]
    assert rows[-1][:2] == ["all", str(EPISODES)]
    assert float(rows[-1][-1].removeprefix("≥")) > 0  # USD; of the tiny embedder no price is known
    for word in ("gpt-4.1", "OPENAI_API_KEY"):
        assert word in done.output
    assert not endpoint.requests
    assert not out.exists()
    unknown = await invoked(*given, f"--out={out}", "--dry-run", "--set=endpoints.judge.model=gpt-9")
    assert isinstance(unknown.exception, SetupError)
    assert "--set endpoints.judge.model=" in unknown.output
