"""Every task of MiniWoB++: listed, begun by seed, stepped, scored, and solved where a script can."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from one_room import OneRoom

from bestofq.core.actions import Click, Goto, Refresh, Wait, action_text
from bestofq.core.decision import Candidate, Decision, State
from bestofq.core.errors import BrowserError, InfraError, InputError
from bestofq.core.observation import Observation, Task
from bestofq.envs.miniwob.env import MiniWobEnv
from bestofq.envs.miniwob.settings import HELD_OUT, MiniWobSettings
from bestofq.envs.miniwob.suite import SEEDS, MiniWob, find_html, task_names
from experiments.oracles.miniwob.solvers import SOLVERS, advise

pytestmark = pytest.mark.asyncio(loop_scope="session")
AT_ONCE = 6
STEPS = 25
RESTLESS = ("chase-circle", "click-pie", "hover-shape", "moving-items", "simon-says", "stock-market")  # by the clock


def narrowed(suite: MiniWob, **settings: Any) -> MiniWob:
    return replace(suite, settings=MiniWobSettings(**settings))


async def one(suite: MiniWob, name: str) -> Task:
    return (await narrowed(suite, only=name, per_task=1).tasks("test"))[0]


async def solved(env: MiniWobEnv, task: Task, seen: Observation) -> bool:
    """Whether a scripted solver earns the page's reward."""
    state = State(task=task, observation=seen)
    for _ in range(STEPS):
        advice = advise(state)
        candidate = Candidate(action=advice.action, label=action_text(advice.action, state.observation.elements))
        result = await env.step(advice.action)
        if result.terminated:
            return result.reward == 1
        done = Decision(candidates=(candidate,), scores=(0.0,), chosen=0)
        state = State(task=task, decisions=(*state.decisions, done), observation=result.observation)
    return False


async def test_every_task_is_begun_by_its_seed_and_scored_and_what_its_solver_does_is_rewarded(suite: MiniWob) -> None:
    tasks = await narrowed(suite, per_task=1).tasks("test")
    assert len(tasks) == len(task_names(find_html())) >= 130
    assert len(SOLVERS) >= 30
    assert {name for family in HELD_OUT.values() for name in family} <= set(SOLVERS) <= {task.group for task in tasks}
    failed: list[str] = []
    left = enumerate(tasks)

    async def check() -> None:
        assert suite.browser is not None
        env = MiniWobEnv(suite.root, suite.browser)
        env.session = OneRoom(suite.browser)
        for number, task in left:  # `reset` fails where the page asks for anything else than `task.goal`
            first = await env.reset(task, seed=1)
            assert task.goal
            assert first.url == task.start_url
            assert "Last reward" not in first.text
            assert "START" not in first.text
            if number % 3 == 0 and not task.id.startswith(RESTLESS):
                again = await env.reset(task, seed=2)
                assert (first.text, first.elements) == (again.text, again.elements), task.id
            result = await env.step(Wait(seconds=0.05))
            assert result.reward in (0.0, 1.0)
            assert not result.truncated
            if task.group in SOLVERS and not await solved(env, task, result.observation):
                failed.append(task.id)
        await env.close()

    await asyncio.gather(*(check() for _ in range(AT_ONCE)))
    assert not failed


async def test_another_seed_is_another_problem(suite: MiniWob) -> None:
    tasks = await narrowed(suite, only="enter-*", per_task=2).tasks("test")
    half = len(tasks) // 2
    assert [t.id.partition("/")[0] for t in tasks[:half]] == [t.id.partition("/")[0] for t in tasks[half:]]
    assert all(a.goal != b.goal for a, b in zip(tasks[:half], tasks[half:], strict=True))


async def test_goals_are_clean_words(suite: MiniWob) -> None:
    flight = await one(suite, "flight.AA")
    assert flight.goal.startswith("Book a flight. Departure City: ")
    mail = await one(suite, "email-inbox-nl-turk")
    assert "{" not in mail.goal
    assert not mail.allowed_hosts  # the environment sets them: the port is not known before


async def test_the_pages_own_reward_ends_the_episode(suite: MiniWob, env: MiniWobEnv) -> None:
    task = await one(suite, "click-test-2")
    right, wrong = "ONE", "TWO"
    for name, raw in ((right, 1.0), (wrong, -1.0)):
        seen = await env.reset(task, seed=0)
        assert env.standing.raw == 0
        result = await env.step(Click(mark=next(e.mark for e in seen.elements if e.name == name)))
        assert (result.reward, result.terminated, env.standing.raw) == (max(raw, 0.0), True, raw)
        with pytest.raises(BrowserError, match="has ended"):
            await env.step(Wait(seconds=0.1))


async def test_a_page_loaded_anew_is_the_same_problem_and_another_page_ends_it(suite: MiniWob, env: MiniWobEnv) -> None:
    task = await one(suite, "click-checkboxes")
    first = await env.reset(task, seed=0)
    ticked = await env.step(Click(mark=1))
    assert "(checked) [1]" in ticked.observation.text
    anew = await env.step(Refresh())
    assert (anew.observation.text, anew.terminated) == (first.text, False)
    gone = await env.step(Goto(url=f"{suite.root}/miniwob/click-test.html"))
    assert (gone.reward, gone.terminated) == (0.0, True)


async def test_another_goal_than_the_pages_is_no_episode(suite: MiniWob, env: MiniWobEnv) -> None:
    task = await one(suite, "click-button")
    with pytest.raises(InfraError, match="but the task's goal is"):
        await env.reset(task.model_copy(update={"goal": "Click on nothing."}), seed=0)
    with pytest.raises(InputError, match="names no seed"):
        await env.reset(task.model_copy(update={"start_url": "/miniwob/click-button.html"}), seed=0)


async def test_training_keeps_off_the_held_out_families_and_the_test_seeds(suite: MiniWob) -> None:
    apart = {name for family in HELD_OUT.values() for name in family}
    assert len(HELD_OUT) >= 5
    assert not apart & set(suite.names("train"))
    assert set(narrowed(suite, families="held-out").names("test")) == apart
    assert set(narrowed(suite, families="seen").names("test")) == set(suite.names("train"))
    assert not set(SEEDS["train"]) & (set(SEEDS["dev"]) | set(SEEDS["test"]))
    with pytest.raises(InputError, match="click-option"):
        narrowed(suite, only="click-option").names("train")


async def test_names_and_folders_that_are_none(suite: MiniWob, tmp_path: Path) -> None:
    assert set(task_names(find_html(), "click-tab*")) == {
        *("click-tab", "click-tab-2", "click-tab-2-easy", "click-tab-2-hard", "click-tab-2-medium")
    }
    assert task_names(find_html(), "click-option, focus-text*") == ("click-option", "focus-text", "focus-text-2")
    with pytest.raises(InputError, match="near it: click-button"):
        narrowed(suite, only="click-tab,clik-buton").names("test")
    with pytest.raises(InputError, match="near it: click-button"):
        narrowed(suite, only="clik-buton").names("test")
    with pytest.raises(InputError, match=r"core/core\.js"):
        find_html(tmp_path)
    every = set(task_names(find_html()))
    assert {name for names in HELD_OUT.values() for name in names} <= every
