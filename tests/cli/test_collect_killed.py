"""`bestofq collect`, killed again and again: it goes on from the last committed step, and asks for no reply twice."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forked import Forked
from test_search_command import shopper
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.decision import Episode
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
    settings = {**endpoint, "suite.concurrency": "1", "suite.seed": "3"}
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["collect", "webshop", "--store", str(folder), "--tasks", str(TASKS), "--repeats", "1", *chosen]


def played(folder: Path) -> list[Episode]:
    """Without what they took and when."""
    with Store.open(folder, read_only=True) as store:
        assert not store.summaries(status="interrupted")
        found = list(store.episodes())
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
        for episode in found
    ]


async def test_a_killed_collection_goes_on_from_its_last_steps_as_if_it_had_not_been(tmp_path: Path) -> None:
    calm, killing = Killing(), Killing(*KILLED_AT)
    async with FaultServer(calm) as server:
        done = await asyncio.to_thread(CliRunner().invoke, app, arguments(tmp_path / "calm", server))
    assert done.exit_code == 0, done.output
    async with FaultServer(killing) as server:
        for _ in (*KILLED_AT, None):
            words = arguments(tmp_path / "killed", server)
            killing.process = Forked(tmp_path / "log", app, words, OPENAI_API_KEY="none")
            status = await asyncio.to_thread(killing.process.wait)
    assert status == 0, killing.process.said
    assert not killing.at
    assert played(tmp_path / "killed") == played(tmp_path / "calm")
    steps = sum(len(episode.steps) for episode in played(tmp_path / "calm"))
    assert steps > max(KILLED_AT)
    assert (calm.served, killing.served) == (steps, steps)
