import asyncio
from pathlib import Path

import pytest
from line_world import LineEnv, line_agent, line_env, line_task

from bestofq.core.actions import Action
from bestofq.core.decision import Provenance, StepResult
from bestofq.core.errors import BrowserError, InfraError, InputError
from bestofq.core.observation import Observation, Task
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

TASKS = [line_task(f"t{number}", 3) for number in range(12)]


async def collect(store: Store, give_up_after: int = 20, **settings: object) -> list[EpisodeSummary]:
    await store.begin_run("r", {}, Provenance(version="test"))
    options = RunOptions(step_limit=12, give_up_after=give_up_after)
    given = {"tasks": TASKS, "make_env": line_env, "agent": line_agent(), "options": options, **settings}
    return await run_many(store=store, run="r", **given)  # type: ignore[arg-type]


async def test_each_task_is_done_once_a_repeat_and_the_same_call_does_nothing_more(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        first = await collect(store, repeats=2)
        assert {(s.key.task, s.key.repeat) for s in first} == {(t.id, r) for t in TASKS for r in (0, 1)}
        assert await collect(store, repeats=2) == first
        assert len(await collect(store, repeats=3)) == 36
        assert len(store.summaries()) == 36


async def test_an_episode_is_the_same_whatever_runs_beside_it(tmp_path: Path) -> None:
    walks = []
    for concurrency, tasks in ((1, TASKS), (7, TASKS[::-1])):
        with Store.open(tmp_path / str(concurrency)) as store:
            await collect(store, concurrency=concurrency, tasks=tasks)
            walks.append({e.task.id: [step.decision.chosen for step in e.steps] for e in store.episodes()})
    assert walks[0] == walks[1]
    assert len({tuple(walk) for walk in walks[0].values()}) > 1


class Flaky(LineEnv):
    """Crashes the first `crashes` times that it is stepped, over all environments."""

    crashes = 0
    made: list["Flaky"] = []  # noqa: RUF012

    async def step(self, action: Action) -> StepResult:
        if Flaky.crashes > 0:
            Flaky.crashes -= 1
            raise BrowserError("Chromium crashed")
        return await super().step(action)

    async def close(self) -> None:
        await super().close()
        if self.at == 0:
            raise BrowserError("Chromium is gone")


async def flaky_env() -> Flaky:
    Flaky.made.append(Flaky())
    return Flaky.made[-1]


async def test_a_cut_episode_is_tried_again_in_a_new_environment(tmp_path: Path) -> None:
    Flaky.crashes, Flaky.made = 3, []
    with Store.open(tmp_path) as store:
        done = await collect(store, make_env=flaky_env, concurrency=2)
        assert len(done) == 12
        assert not store.summaries(status="cut")  # they went on
    assert len(Flaky.made) == 5
    assert all(env.closed for env in Flaky.made)


async def test_retries_end_and_the_next_call_tries_again(tmp_path: Path) -> None:
    Flaky.crashes, Flaky.made = 2, []
    with Store.open(tmp_path) as store:
        assert await collect(store, make_env=flaky_env, concurrency=1, tasks=TASKS[:1]) == []
        assert len(await collect(store, make_env=flaky_env, concurrency=1, tasks=TASKS[:1])) == 1


async def test_a_run_that_only_breaks_gives_up(tmp_path: Path) -> None:
    Flaky.crashes, Flaky.made = 1000, []
    with Store.open(tmp_path) as store:
        with pytest.raises(InfraError, match=r"5 episodes in a row were cut off, the last by 'BrowserError: Chromium"):
            await collect(store, make_env=flaky_env, give_up_after=5, concurrency=3)
        assert 5 <= len(store.summaries(status="running")) <= 7
        Flaky.crashes = 0
        assert len(await collect(store, make_env=flaky_env)) == len(TASKS)


async def test_an_ended_call_leaves_its_steps_and_the_next_begins_the_episode_again(tmp_path: Path) -> None:
    class Stuck(LineEnv):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            if task.id == "t5":
                await asyncio.Event().wait()
            return await super().reset(task, seed=seed)

    async def stuck() -> Stuck:
        return Stuck()

    with Store.open(tmp_path) as store:
        call = asyncio.create_task(collect(store, make_env=stuck, concurrency=2))
        async with asyncio.timeout(20):
            while len(store.load_finished_keys("r", "walker")) < 11:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(store.load_finished_keys("r", "walker")) == 11
        assert len(await collect(store)) == 12
        assert [summary.key.task for summary in store.summaries(status="interrupted")] == ["t5"]


async def test_impossible_wishes_are_named(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        with pytest.raises(InputError, match="repeats is 0"):
            await collect(store, repeats=0)
        with pytest.raises(InputError, match="share suite and id"):
            await collect(store, tasks=[*TASKS, TASKS[0]])
        assert await collect(store, tasks=[]) == []
