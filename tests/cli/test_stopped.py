"""Ctrl-C, pressed once or until the command ends: it says how it goes on, closes what is open, and goes on."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_collect_killed import Killing, arguments
from test_running import bestofq, stopped
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("impatiently", [False, True])
async def test_a_stopped_collection_says_how_it_goes_on_and_does(impatiently: bool, tmp_path: Path) -> None:
    replies, asked = Killing(), asyncio.Event()

    def reply(request: Mapping[str, Any]) -> str:
        if replies.served:  # a step is stored
            asked.set()
        return replies(request)

    async with FaultServer(reply, seconds=0.1) as server:
        words = arguments(tmp_path / "store", server)
        process = await bestofq(tmp_path, *words)
        await asked.wait()
        said = await stopped(process, impatiently=impatiently)
        assert process.returncode == 130, said
        assert said.endswith("\nStopped. Run the same command again to continue.\n")
        assert "Traceback" not in said
        done = await asyncio.to_thread(CliRunner(env={"OPENAI_API_KEY": "none"}).invoke, app, words)
    assert done.exit_code == 0, done.output
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert not store.summaries(status="interrupted")
        assert sum(one.steps for one in store.summaries()) in (replies.served, replies.served - 1)  # the one in flight
