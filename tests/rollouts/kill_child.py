"""Collects episodes in the line world; writes what was acknowledged to a log, so that a killer can compare."""

import asyncio
import os
from pathlib import Path

from line_world import LineEnv, line_agent, line_task

from bestofq.core.decision import Provenance, Step
from bestofq.core.observation import Task
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.location import Location
from bestofq.store.store import Store


class LoggingStore(Store):
    """The store, with a line in the log after each acknowledged commit."""

    log: int

    async def begin_episode(self, run: str, agent: str, task: Task, repeat: int, provenance: Provenance) -> str:
        episode = await super().begin_episode(run, agent, task, repeat, provenance)
        os.write(self.log, f"begin {episode} {task.id}\n".encode())
        return episode

    async def append_step(self, episode: str, step: Step) -> None:
        await super().append_step(episode, step)
        os.write(self.log, f"step {episode} {step.index}\n".encode())

    async def finish_episode(self, episode, verdict, final) -> None:  # type: ignore[no-untyped-def]
        await super().finish_episode(episode, verdict, final)
        os.write(self.log, f"finish {episode} {verdict.outcome}\n".encode())


async def _collect(where: Path | Location, log: Path, episodes: int) -> None:
    LoggingStore.log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    async def make_env() -> LineEnv:
        return LineEnv(seconds=0.004)

    with LoggingStore.open(where) as store:
        await store.begin_run("killed", {"episodes": episodes}, Provenance(version="test"))
        os.write(LoggingStore.log, b"ready\n")
        tasks = [line_task(f"t{number}", length=3) for number in range(episodes)]
        await run_many(
            tasks,
            make_env,
            line_agent(),
            store=store,
            run="killed",
            concurrency=4,
            options=RunOptions(step_limit=12, seed=7),
        )


def collect(where: Path | Location, log: Path, episodes: int) -> None:
    asyncio.run(_collect(where, log, episodes))
