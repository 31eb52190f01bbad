"""Ctrl-C, pressed once or until the command ends: it says how it goes on, closes what is open, and goes on. Pressed
when all is done, it changes nothing."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_collect_killed import Killing, arguments
from test_running import bestofq, stop
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.config.models import Models
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer


@pytest.mark.parametrize("impatiently", [False, True])
async def test_a_stopped_collection_says_how_it_goes_on_and_does(impatiently: bool, tmp_path: Path) -> None:
    replies, asked = Killing(), asyncio.Event()

    def reply(request: Mapping[str, Any]) -> str:
        if replies.served:  # a step is stored
            asked.set()
        return replies(request)

    async with FaultServer(reply, seconds=0.1) as server:
        words = arguments(tmp_path / "store", server)
        process = bestofq(tmp_path / "log", *words)
        await asked.wait()
        code, said = await stop(process, impatiently=impatiently), process.said
        assert code == 130, said
        assert said.endswith("\nStopped. Run the same command again to continue.\n")
        assert "Traceback" not in said
        done = await asyncio.to_thread(CliRunner(env={"OPENAI_API_KEY": "none"}).invoke, app, words)
    assert done.exit_code == 0, done.output
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert not store.summaries(status="interrupted")
        assert sum(one.steps for one in store.summaries()) in (replies.served, replies.served - 1)  # the one in flight


def test_ctrl_c_while_a_command_that_is_done_ends_changes_nothing() -> None:
    slowly = "import atexit, time; atexit.register(lambda: (print('done', flush=True), time.sleep(1)))"
    words = [sys.executable, "-c", f"{slowly}\nfrom bestofq.cli.main import run; run()", "settings", "iql"]
    reset = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=reset
    ) as process:
        assert process.stdout is not None
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
        words = [command, *arguments(tmp_path / "store", server)[1:]]
        words[words.index("--repeats")] = times
        done = await asyncio.to_thread(CliRunner(env={"OPENAI_API_KEY": "none"}).invoke, app, words)
    assert done.exit_code == 0, done.output
    assert "Costs" in done.output.partition("\nclosed\n")[2]
