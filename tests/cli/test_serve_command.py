"""`bestofq serve` as a process of its own: record, learn from that, choose; and what it refuses."""

import asyncio
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
from bestofq.store.store import Store
from bestofq.testing import FaultServer

SCHEMA = {"name": "agent_output", "schema": {"type": "object", "properties": {"action": {"type": "array"}}}}
FORM = {"type": "json_schema", "json_schema": SCHEMA}
README = Path(__file__).parents[2] / "README.md"
PAGE = "<browser_state>\nCurrent tab: A\nTab A: http://a.ex/ - A\n[1]<a />\n\tshoes\n[2]<a />\n\that\n</browser_state>"


@contextmanager
def served(log: Path, *words: str, sent: int = signal.SIGINT, status: int = 0) -> Iterator[tuple[str, int]]:
    """The root of a `bestofq serve` of its own and its process, which is stopped as a user stops it."""
    process, begun = Forked(log, app, ["serve", "--port", "0", *words]), time.monotonic()
    try:
        while "\n" not in process.said:
            assert process.runs
            assert time.monotonic() < begun + 60
            time.sleep(0.01)
        yield process.said.split()[0].removesuffix("/v1"), process.pid
        os.kill(process.pid, sent)
        assert process.wait(30) == status, process.said
    finally:
        process.kill()


async def act(client: httpx.AsyncClient, root: str, goal: str) -> int:
    """The element that the agent is told to click."""
    content = f"<user_request>{goal}</user_request>{PAGE}"
    asks = {"model": "m", "messages": [{"role": "user", "content": content}], "temperature": 0.0}
    asks["response_format"] = FORM
    got = await client.post(f"{root}/v1/chat/completions", json=asks)
    return int(json.loads(got.json()["choices"][0]["message"]["content"])["action"][0]["click"]["index"])


async def test_the_readme_s_lines_record_learn_and_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream clicks the hat when it is greedy, and the shoes that are wanted at a raised temperature."""
    monkeypatch.chdir(tmp_path)
    printed = README.read_text("utf-8").partition("## In front of your agent")[2].split("```")[1]

    def reply(request: Mapping[str, Any]) -> str:
        return json.dumps({"action": [{"click": {"index": 1 if request["temperature"] else 2}}]})

    async with FaultServer(reply) as server, httpx.AsyncClient(timeout=60) as client:
        lines = printed.replace("https://…/v1", server.base_url).splitlines()[1:]
        record, (_, outcome, _, told), learn, rank = (shlex.split(line, comments=True) for line in lines)
        with served(tmp_path / "recording", *record[2:]) as (root, _):
            wins = 0
            while wins < 8:
                wins += (won := await act(client, root, f"buy shoes {server.seen['ok']}") == 1)
                url, said = (
                    outcome.replace("http://127.0.0.1:8770", root),
                    told if won else told.replace("true", "false"),
                )
                assert (await client.post(url, content=said)).status_code == 200
        network = [*learn[1:], "--no-estimate", "--out", "runs/network", "--set", "iql.steps=200"]
        network += ["--set", "iql.batch_size=16", "--set", "iql.network.hidden=[16]", "--set", "iql.lr_q=0.003"]
        assert isinstance(CliRunner().invoke(app, network).exception, ConfigError)  # nobody says what embeds
        for words in (learn[1:], [*network, "--set", "model.embedder=pocket"]):
            assert CliRunner().invoke(app, words).exit_code == 0
        learned = ["--rank", "runs/network", "--insist", "--embedder", "pocket", "--run", "network"]
        for name, words in (("memory", rank[2:]), ("network", [*rank[2:4], *learned])):
            with served(tmp_path / name, *words) as (root, _):
                assert await act(client, root, "buy shoes") == 1
    with Store.open("runs/serve", read_only=True) as opened:
        [step] = next(iter(opened.episodes(run="network"))).steps
    assert step.decision.checkpoint
    assert len({one.label for one in step.decision.candidates}) == len(step.decision.candidates)


STOPS = pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])


@STOPS
async def test_it_says_which_sessions_have_no_outcome_however_it_stops(
    tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    click = '{"action": [{"click": {"index": 1}}]}'
    async with FaultServer(lambda _: click) as server, httpx.AsyncClient(timeout=60) as client:
        words = ("--upstream", server.base_url, "--store", str(tmp_path / "s"))
        with served(tmp_path / "log", *words, sent=sent, status=status) as (root, _):
            await act(client, root, "buy shoes")
    assert "1 of 1 sessions ended without an outcome" in " ".join((tmp_path / "log").read_text("utf-8").split())


@STOPS
async def test_it_stops_while_the_endpoint_says_nothing(tmp_path: Path, sent: signal.Signals, status: int) -> None:
    """Within seconds. It waited for its own patience with the endpoint, ten minutes."""
    async with FaultServer(lambda _: "", {"silence": 1.0}) as server, httpx.AsyncClient(timeout=0.5) as client:
        words = ("--upstream", server.base_url, "--store", str(tmp_path / "s"))
        with served(tmp_path / "log", *words, sent=sent, status=status) as (root, _):
            async with asyncio.timeout(60):
                while not server.requests:
                    with pytest.raises(httpx.TimeoutException):
                        await act(client, root, "buy shoes")


async def test_it_keeps_no_request(tmp_path: Path) -> None:
    async with FaultServer(lambda _: "{}") as server, httpx.AsyncClient(timeout=60) as client:
        with served(tmp_path / "log", "--upstream", server.base_url, "--store", str(tmp_path / "s")) as (root, pid):
            held, memory = list[float](), Path(f"/proc/{pid}/statm").read_text
            for number in range(40):
                asks = {"model": "m", "messages": [{"role": "user", "content": f"{number} {'x' * 2_000_000}"}]}
                await client.post(f"{root}/v1/chat/completions", json=asks | {"response_format": FORM})
                held.append(int(memory().split()[1]) * 4096 / 1e6)
    assert held[-1] - held[9] < 30  # MB, of 60
