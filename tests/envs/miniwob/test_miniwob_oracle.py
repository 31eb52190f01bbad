"""A scripted solver, through the whole of the suite: what it does right the pages reward."""

import asyncio
from dataclasses import replace

import pytest
from one_room import OneRoom

from bestofq.browser.browser import Browser
from bestofq.core.actions import action_text
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.observation import Task
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import HELD_OUT, MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob
from experiments.oracles.miniwob.solvers import SOLVERS, advise

pytestmark = pytest.mark.asyncio(loop_scope="session")
STEPS = 25


async def reward(env: MiniWobEnv, task: Task) -> float:
    state = State(task=task, observation=await env.reset(task, seed=0))
    for _ in range(STEPS):
        advice = advise(state)
        candidate = Candidate(action=advice.action, label=action_text(advice.action, state.observation.elements))
        result = await env.step(advice.action)
        if result.terminated:
            return result.reward
        done = Decision(candidates=(candidate,), scores=(0.0,), chosen=0)
        state = State(task=task, decisions=(*state.decisions, done), observation=result.observation)
    return 0.0


async def test_every_solver_earns_its_tasks_reward(suite: MiniWob, browser: Browser) -> None:
    assert len(SOLVERS) >= 30
    assert {name for family in HELD_OUT.values() for name in family} <= set(SOLVERS)
    failed: list[str] = []
    narrowed = replace(suite, settings=MiniWobSettings(only=",".join(SOLVERS), per_task=1))
    left = iter(await narrowed.tasks("test"))

    async def solve() -> None:
        env = MiniWobEnv(suite.root, browser)
        env.session = OneRoom(browser)
        for task in left:
            if await reward(env, task) < 1:
                failed.append(task.id)
        await env.close()

    await asyncio.gather(*(solve() for _ in range(6)))
    assert not failed
