"""What is drawn at random: never twice by accident, and the same whenever the same episode is played again."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from line_world import LineEnv, line_agent, line_env, line_task

from bestofq.agents.agent import Agent
from bestofq.agents.proposers import SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector, UniformSelector
from bestofq.core.actions import Action
from bestofq.core.decision import Decision, Provenance, StepResult
from bestofq.core.errors import BrowserError
from bestofq.core.language import Request
from bestofq.core.observation import Observation, Task
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedModel

TASKS = [line_task(f"t{number}", 3) for number in range(8)]
Walks = dict[str, list[Decision]]  # by task, without what they used: seconds differ


def drawn(request: Request) -> Sequence[str]:
    """Links and thoughts by the request's seed alone, as the draws of a model that is sure of nothing."""
    digest = hashlib.sha256(str(request.seed).encode()).digest()
    return [f"thought {byte}\nclick [{1 + byte % 2}]" for byte in digest[: request.n]]


def sampler(name: str = "sampler", *, selector: bool = False) -> Agent:
    """`selector`: the same two candidates everywhere, one of them drawn; else the model's draws, the first taken."""
    proposer = SamplingProposer(ScriptedModel(drawn), samples_per_candidate=1)
    if selector:
        return line_agent(name=name, selector=UniformSelector())
    return Agent(name=name, proposer=proposer, scorer=ConstantScorer(), selector=GreedySelector(), n_candidates=3)


async def play(
    folder: Path, run: str = "r", agent: Agent | None = None, seed: int = 0, retries: int = 1, **settings: object
) -> Walks:
    with Store.open(folder) as store:
        await store.begin_run(run, {}, Provenance(version="test"))
        options = RunOptions(step_limit=12, seed=seed, retries=retries)
        given = {"make_env": line_env, "options": options, **settings}
        await run_many(TASKS, agent=agent or sampler(), store=store, run=run, **given)  # type: ignore[arg-type]
        name = (agent or sampler()).name
        episodes = store.episodes(run=run, agent=name)
        return {e.task.id: [step.decision.model_copy(update={"usage": ()}) for step in e.steps] for e in episodes}


@pytest.mark.parametrize("selector", [False, True])
async def test_no_two_runs_agents_or_seeds_draw_alike(selector: bool, tmp_path: Path) -> None:
    """Cycle 2 repeated cycle 1, episode by episode, and evaluation what training had drawn."""
    agent = sampler(selector=selector)
    walks = [
        await play(tmp_path, "cycle-1", agent),
        await play(tmp_path, "cycle-2", agent),
        await play(tmp_path, "eval", agent),
        await play(tmp_path, "eval", sampler("other", selector=selector)),
        await play(tmp_path / "other seed", "eval", agent, seed=1),
    ]
    for task in TASKS:
        taken = {tuple(d.model_dump_json() for d in walk[task.id]) for walk in walks}
        assert len(taken) > 1, "all five drew alike"
    for number, walk in enumerate(walks):
        assert all(walk != other for other in walks[:number])


async def test_a_task_is_the_same_task_in_every_run(tmp_path: Path) -> None:
    begun: list[tuple[Task, int]] = []

    class Seen(LineEnv):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            begun.append((task, seed))
            return await super().reset(task, seed=seed)

    async def make_env() -> Seen:
        return Seen()

    tasks = [task.model_copy(update={"seed": 40 + number}) for number, task in enumerate(TASKS)]
    with Store.open(tmp_path) as store:
        for run in ("cycle-1", "cycle-2"):
            await store.begin_run(run, {}, Provenance(version="test"))
            await run_many(
                tasks, make_env, sampler(), store=store, run=run, repeats=2, options=RunOptions(step_limit=2)
            )
    assert {task.id: seed for task, seed in begun} == {f"t{number}": 40 + number for number in range(8)}
    assert {task for task, _ in begun} == set(tasks)


async def test_another_store_a_stop_and_a_cut_draw_the_same(tmp_path: Path) -> None:
    once = await play(tmp_path / "once")
    assert await play(tmp_path / "again", concurrency=1) == once

    class Stops(LineEnv):
        """Says when ten steps were taken, and takes no more."""

        steps, reached = 0, asyncio.Event()

        async def step(self, action: Action) -> StepResult:
            Stops.steps += 1
            if Stops.steps > 10:
                Stops.reached.set()
                await asyncio.Event().wait()
            return await super().step(action)

    class Crashes(LineEnv):
        """Every third step of all is cut by the machinery."""

        steps = 0

        async def step(self, action: Action) -> StepResult:
            Crashes.steps += 1
            if Crashes.steps % 3 == 0 and Crashes.steps < 20:
                raise BrowserError("Chromium crashed")
            return await super().step(action)

    async def stopping() -> LineEnv:
        return Stops()

    async def crashing() -> LineEnv:
        return Crashes()

    stopped = asyncio.create_task(play(tmp_path / "stopped", make_env=stopping, concurrency=2))
    await Stops.reached.wait()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert await play(tmp_path / "stopped") == once
    assert await play(tmp_path / "cut", make_env=crashing, retries=20, concurrency=2) == once
    assert Crashes.steps > 20
