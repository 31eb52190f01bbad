"""An episode whose process died goes on from its last step, where its actions may be and can be carried out again."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from line_world import Crashing, LineEnv, line_agent, line_task, maker

from bestofq.agents.agent import Agent
from bestofq.agents.proposers import SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import UniformSelector
from bestofq.core.actions import Action, AskUser
from bestofq.core.decision import Candidate, Decision, Episode, Provenance, Scores, State, StepResult
from bestofq.core.errors import ModelError
from bestofq.core.language import Request
from bestofq.core.observation import Observation, Task
from bestofq.core.repeating import Unsafe
from bestofq.core.usage import Usage
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedModel, ScriptedScorer

TASK = line_task("t", 3)
MADE = Provenance(version="test")


class Renamed(LineEnv):
    """Its pages are others since, but for the first."""

    async def step(self, action: Action) -> StepResult:
        result = await super().step(action)
        changed = result.observation.model_copy(update={"url": "line://elsewhere"})
        return result.model_copy(update={"observation": changed}) if self.at else result


async def whole(folder: Path) -> Episode:
    """The episode, played in one go."""
    with Store.open(folder) as store:
        await collect(store)
        [episode] = store.episodes()
    assert len(episode.steps) >= 3
    return episode


async def collect(
    store: Store,
    *,
    env: Callable[[], LineEnv] = LineEnv,
    irreversible: Unsafe | None = None,
    agent: Agent | None = None,
) -> list[int]:
    """Collect it; the steps that the agent was asked for."""
    steps: list[int] = []

    def values(state: State, candidates: Sequence[Candidate]) -> Sequence[float]:
        steps.append(len(state.decisions))
        return [0.0] * len(candidates)

    agent = replace(agent or line_agent(), scorer=ScriptedScorer(values))
    await store.begin_run("r", {}, MADE)
    options = RunOptions(step_limit=12, seed=4, irreversible=irreversible)
    await run_many([TASK], maker(env), agent, store=store, run="r", options=options)
    return steps


async def left(store: Store, episode: Episode, steps: int) -> str:
    """What a process leaves that dies after so many steps."""
    await store.begin_run("r", {}, MADE)
    id_ = await store.begin_episode("r", episode.agent, episode.task, 0, episode.provenance)
    for step in episode.steps[:steps]:
        await store.append_step(id_, step)
    return id_


def same(*episodes: Episode) -> bool:
    one, other = ((e.steps, e.final, e.verdict, e.provenance.seed) for e in episodes)
    return one == other


async def test_it_goes_on_from_wherever_it_was_and_ends_the_same(tmp_path: Path) -> None:
    episode = await whole(tmp_path / "whole")
    for steps in range(1, len(episode.steps) + 1):
        with Store.open(tmp_path / str(steps)) as store:
            id_ = await left(store, episode, steps)
            assert await collect(store) == list(range(steps, len(episode.steps)))
            [again] = store.episodes()
            assert again.id == id_
            assert same(again, episode)
            assert not store.summaries(status="interrupted")


@pytest.mark.parametrize(
    ("env", "irreversible"), [(Renamed, None), (LineEnv, lambda *_: True)], ids=["another page", "unsafe"]
)
async def test_if_it_cannot_go_on_it_begins_anew(
    tmp_path: Path, env: type[LineEnv], irreversible: Unsafe | None
) -> None:
    episode = await whole(tmp_path / "whole")
    with Store.open(tmp_path / "left") as store:
        id_ = await left(store, episode, len(episode.steps) - 1)
        asked = await collect(store, env=env, irreversible=irreversible)
        assert asked[0] == 0
        assert [summary.id for summary in store.summaries(status="interrupted")] == [id_]
        [again] = store.episodes()
        assert again.id != id_


async def test_an_action_that_is_unsafe_only_now_is_not_carried_out(tmp_path: Path) -> None:
    """The page says that it harms nobody; now it does not."""
    episode = await whole(tmp_path / "whole")
    carried_out: list[Action] = []

    class Counting(LineEnv):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            seen = await super().reset(task, seed=seed)
            return seen.model_copy(update={"notices": ("now",)})

        async def step(self, action: Action) -> StepResult:
            carried_out.append(action)
            return await super().step(action)

    with Store.open(tmp_path / "left") as store:
        await left(store, episode, 2)
        asked = await collect(store, env=Counting, irreversible=lambda seen, _: "now" in seen.notices)
        assert asked[0] == 0
        [again] = store.episodes()
    assert len(carried_out) == len(again.steps)


async def test_a_user_whose_reply_is_stored_is_not_asked_again(tmp_path: Path) -> None:
    questions: list[str] = []

    class Asked(LineEnv):
        async def step(self, action: Action) -> StepResult:
            if isinstance(action, AskUser):
                questions.append(action.question)
            return await super().step(action)

    agent = line_agent(replies=[['ask "which one?"'], *[["click [2]"]] * 3])
    with Store.open(tmp_path / "whole") as store:
        await collect(store, env=Asked, agent=agent)
        [episode] = store.episodes()
    with Store.open(tmp_path / "left") as store:
        await left(store, episode, 2)
        assert await collect(store, env=Asked, agent=agent) == [2, 3]
        assert same(next(store.episodes()), episode)
    assert questions == ["which one?"]


def crash_at(number: int) -> Callable[[], LineEnv]:
    """The step of that number breaks, counted over all environments."""
    return partial(Crashing, number.__eq__, count())


async def test_a_cut_episode_goes_on_with_the_decision_that_it_was_cut_in(tmp_path: Path) -> None:
    episode = await whole(tmp_path / "whole")
    for number in range(len(episode.steps)):
        with Store.open(tmp_path / str(number)) as store:
            assert await collect(store, env=crash_at(number)) == list(range(len(episode.steps)))
            [again] = store.episodes()
            assert same(again, episode)
            assert not store.summaries(status="cut")


async def test_a_cut_episode_that_may_not_be_repeated_is_kept_and_begun_anew(tmp_path: Path) -> None:
    episode = await whole(tmp_path / "whole")
    with Store.open(tmp_path / "cut") as store:
        asked = await collect(store, env=crash_at(2), irreversible=lambda *_: True)
        assert asked == [0, 1, 2, *range(len(episode.steps))]
        [cut] = store.episodes(status="cut")
        assert [step.truncated for step in cut.steps] == [False, False, True]
        assert "Chromium crashed" in cut.verdict.reason
        assert same(next(store.episodes()), episode)


async def test_what_a_decision_cost_that_came_to_nothing_is_counted_with_the_next(tmp_path: Path) -> None:
    used = Usage(role="proposer", calls=1, tokens_in=7)
    left = [ModelError("the endpoint is gone")]
    left[0].usage = (used,)

    class Breaks(ConstantScorer):
        async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
            if len(state.decisions) == 1 and left:
                raise left.pop()
            return await super().score(state, candidates)

    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, MADE)
        await run_many([TASK], maker(), replace(line_agent(), scorer=Breaks()), store=store, run="r")
        [episode] = store.episodes()
    tokens = [sum(usage.tokens_in for usage in step.decision.usage) for step in episode.steps]
    assert tokens == [0, 7, *[0] * (len(tokens) - 2)]


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
    return Agent(name=name, proposer=proposer, n_candidates=3)


async def play(
    folder: Path, run: str = "r", agent: Agent | None = None, seed: int = 0, retries: int = 1, **settings: object
) -> Walks:
    with Store.open(folder) as store:
        await store.begin_run(run, {}, Provenance(version="test"))
        options = RunOptions(step_limit=12, seed=seed, retries=retries)
        given = {"make_env": maker(), "options": options, **settings}
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

    tasks = [task.model_copy(update={"seed": 40 + number}) for number, task in enumerate(TASKS)]
    with Store.open(tmp_path) as store:
        for run in ("cycle-1", "cycle-2"):
            await store.begin_run(run, {}, Provenance(version="test"))
            await run_many(
                tasks, maker(Seen), sampler(), store=store, run=run, repeats=2, options=RunOptions(step_limit=2)
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

    stopped = asyncio.create_task(play(tmp_path / "stopped", make_env=maker(Stops), concurrency=2))
    await Stops.reached.wait()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert await play(tmp_path / "stopped") == once
    crashing = partial(Crashing, lambda step: step % 3 == 0 and step < 20, steps := count(1))
    assert await play(tmp_path / "cut", make_env=maker(crashing), retries=20, concurrency=2) == once
    assert next(steps) > 21
