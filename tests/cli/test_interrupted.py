"""`bestofq collect`, killed or stopped by Ctrl-C: the same command continues from the last committed step."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import Forked
from test_running import bestofq, stop
from test_search_command import shopper
from typer.testing import CliRunner, Result

from bestofq.cli.commands import app
from bestofq.config.models import Models
from bestofq.core.decision import Episode
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

TASKS, KILLED_AT = 2, (2, 5)


class Killing:
    """Replies of an endpoint, which counts them; at some requests it ends the process that asks instead."""

    def __init__(self, *at: int) -> None:
        self.served, self.at = 0, list(at)
        self.process: Forked | None = None

    def __call__(self, request: Mapping[str, Any]) -> str:
        if self.process is not None and self.at and self.served >= self.at[0]:
            self.at.pop(0)
            os.kill(self.process.pid, signal.SIGKILL)
            raise ConnectionResetError
        self.served += 1
        return shopper(request)


def arguments(folder: Path, server: FaultServer) -> list[str]:
    endpoint = {"endpoints.chat.model": "m", "endpoints.chat.base_url": server.base_url}
    settings = {**endpoint, "candidates": "list", "suite.concurrency": "1", "suite.seed": "3"}
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["collect", "webshop", "--store", str(folder), "--tasks", str(TASKS), "--repeats", "1", *chosen]


async def within(words: list[str]) -> Result:
    """The command in this process, to its end."""
    done = await asyncio.to_thread(CliRunner(env={"OPENAI_API_KEY": "none"}).invoke, app, words)
    assert done.exit_code == 0, done.output
    return done


def played(folder: Path) -> list[Episode]:
    """Without what they took and when."""
    with Store.open(folder, read_only=True) as store:
        assert not store.summaries(status="interrupted")
        return [
            episode.model_copy(
                update={
                    "id": "",
                    "steps": tuple(
                        step.model_copy(update={"decision": step.decision.model_copy(update={"usage": ()})})
                        for step in episode.steps
                    ),
                    "provenance": episode.provenance.model_copy(update={"started_at": "", "command": ""}),
                }
            )
            for episode in store.episodes()
        ]


async def test_a_killed_collection_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Killed twice, it asks for no reply twice."""
    calm, killing = Killing(), Killing(*KILLED_AT)
    async with FaultServer(calm) as server:
        await within(arguments(tmp_path / "calm", server))
    async with FaultServer(killing) as server:
        words = arguments(tmp_path / "killed", server)
        for _ in KILLED_AT:
            killing.process = Forked(tmp_path / "log", app, words, OPENAI_API_KEY="none")
            assert await asyncio.to_thread(killing.process.wait) == -signal.SIGKILL
        await within(words)
    assert not killing.at
    assert played(tmp_path / "killed") == played(tmp_path / "calm")
    steps = sum(len(episode.steps) for episode in played(tmp_path / "calm"))
    assert steps > max(KILLED_AT)
    assert (calm.served, killing.served) == (steps, steps)


@pytest.mark.parametrize("impatiently", [False, True])
async def test_a_stopped_collection_says_how_it_continues_and_does(impatiently: bool, tmp_path: Path) -> None:
    replies, asked = Killing(), asyncio.Event()

    def reply(request: Mapping[str, Any]) -> str:
        if replies.served:  # a step is stored
            asked.set()
        return replies(request)

    async with FaultServer(reply, seconds=0.1) as server:
        words = arguments(tmp_path / "store", server)
        process = bestofq(tmp_path / "log", *words)
        await asked.wait()
        code, printed = await stop(process, impatiently=impatiently), process.said
        assert code == 130, printed
        assert printed.endswith("\nStopped. Run the same command again to continue.\n")
        assert "Traceback" not in printed
        await within(words)
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert not store.summaries(status="interrupted")
        assert sum(one.steps for one in store.summaries()) in (replies.served, replies.served - 1)  # the one in flight


def test_ctrl_c_while_a_command_that_is_done_ends_changes_nothing() -> None:
    slowly = "import atexit, time; atexit.register(lambda: (print('done', flush=True), time.sleep(1)))"
    words = [sys.executable, "-c", f"{slowly}\nfrom bestofq.cli.main import run; run()", "--version"]
    reset = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=reset
    ) as process:
        assert "done\n" in iter(process.stdout.readline, "")
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait()) == ("", 0)


@pytest.mark.parametrize(("command", "times"), [("collect", "--repeats"), ("eval", "--runs")])
async def test_results_are_shown_once_all_is_closed(
    command: str, times: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C after them has nothing to stop."""
    closing = Models.aclose

    async def close(models: Models) -> None:
        await closing(models)
        console.print("closed")

    monkeypatch.setattr(Models, "aclose", close)
    async with FaultServer(Killing()) as server:
        words = [command, *arguments(tmp_path / "store", server)[1:], "--set", "suite.step_limit=1"]
        words[words.index("--repeats")] = times
        words += ["--agents", "prompting"] if command == "eval" else []
        done = await within(words)
    assert "Costs" in done.output.partition("\nclosed\n")[2]
