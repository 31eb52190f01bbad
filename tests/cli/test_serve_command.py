"""`bestofq serve` as a process of its own: record, learn from that, choose; and what it refuses."""

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from forked import Forked
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.errors import ConfigError
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing import FaultServer

SCHEMA = {"name": "agent_output", "schema": {"type": "object", "properties": {"action": {"type": "array"}}}}
README = Path(__file__).parents[2] / "README.md"
PAGE = "<browser_state>\n[1]<a />\n\tred shoes\n[2]<a />\n\tblue hat\n</browser_state>"


@contextmanager
def served(log: Path, *words: str) -> Iterator[str]:
    """The root of a `bestofq serve` of its own, which is stopped as a user stops it."""
    process = Forked(log, app, ["serve", "--port", "0", *words])
    try:
        while "\n" not in process.said:
            assert process.runs
            time.sleep(0.01)
        yield process.said.split()[0].removesuffix("/v1")
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait() == 0, process.said


async def act(client: httpx.AsyncClient, root: str, goal: str) -> int:
    """The element that the agent is told to click."""
    content = f"<user_request>{goal}</user_request>{PAGE}"
    asks = {"model": "m", "messages": [{"role": "user", "content": content}], "temperature": 0.0}
    asks["response_format"] = {"type": "json_schema", "json_schema": SCHEMA}
    got = await client.post(f"{root}/v1/chat/completions", json=asks)
    return int(json.loads(got.json()["choices"][0]["message"]["content"])["action"][0]["click"]["index"])


async def test_it_records_learns_and_then_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream clicks the hat when it is greedy, and the shoes that are wanted at a raised temperature."""
    monkeypatch.setattr(console, "_width", 200)
    store, q, asked = str(tmp_path / "store"), tmp_path / "q", 0

    def reply(request: Mapping[str, Any]) -> str:
        nonlocal asked
        asked += 1
        shoes = request["temperature"] >= 1 or asked % 2
        return json.dumps({"action": [{"click": {"index": 1 if shoes else 2}}]})

    async with FaultServer(reply) as server, httpx.AsyncClient(timeout=60) as client:
        upstream = ("--upstream", server.base_url, "--store", store)
        with served(tmp_path / "recording", *upstream) as root:
            for number in range(12):
                won = await act(client, f"{root}/sessions/s{number}", f"buy shoes {number}") == 1
                done = await client.post(f"{root}/sessions/s{number}/outcome", json={"success": won})
                assert done.status_code == 200
        settings = ("iql.steps=200", "iql.batch_size=16", "iql.network.hidden=[16]", "iql.lr_q=0.003")
        learning = ["train", "--store", store, "--run", "serve", "--no-estimate", "--out", str(q)]
        learning += [word for one in settings for word in ("--set", one)]
        assert isinstance(CliRunner().invoke(app, learning).exception, ConfigError)  # nobody says what embeds
        learned = CliRunner().invoke(app, [*learning, "--set", "model.embedder=pocket"])
        assert learned.exit_code == 0, learned.output
        asked = 1  # the greedy reply is the hat, always
        ranking = ("--rank", str(q), "--embedder", "pocket", "--run", "ranked", "--n", "2")
        with served(tmp_path / "ranking", *upstream, *ranking) as root:
            assert await act(client, root, "buy shoes 3") == 1
    with Store.open(store, read_only=True) as opened:
        [step] = next(iter(opened.episodes(run="ranked"))).steps
    assert step.decision.checkpoint
    assert len({one.label for one in step.decision.candidates}) == len(step.decision.candidates)


async def test_the_lines_of_the_readme_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream clicks the hat when it is greedy, and the shoes that are wanted at a raised temperature."""
    monkeypatch.chdir(tmp_path)
    printed = README.read_text("utf-8").partition("## In front of your agent")[2].split("```")[1]

    def reply(request: Mapping[str, Any]) -> str:
        return json.dumps({"action": [{"click": {"index": 1 if request["temperature"] else 2}}]})

    async with FaultServer(reply) as server, httpx.AsyncClient(timeout=60) as client:
        lines = [
            shlex.split(line, comments=True) for line in printed.replace("https://…/v1", server.base_url).splitlines()
        ]
        record, (_, outcome, _, told), learn, rank = lines[1:]
        with served(tmp_path / "recording", *record[2:]) as root:
            wins = 0
            for number in range(200):
                wins += (won := await act(client, root, f"buy shoes {number}") == 1)
                url, said = (
                    outcome.replace("http://127.0.0.1:8770", root),
                    told if won else told.replace("true", "false"),
                )
                assert (await client.post(url, content=said)).status_code == 200
                if wins == 8:
                    break
        learned = CliRunner().invoke(app, learn[1:])
        assert learned.exit_code == 0, learned.output
        with served(tmp_path / "ranking", *rank[2:]) as root:
            assert await act(client, root, "buy shoes") == 1
