import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from line_world import LineEnv, line_agent, line_task, maker

from bestofq.agents.selectors import GreedySelector
from bestofq.core.actions import Action
from bestofq.core.decision import Candidate, Decision, Episode, Proposal, Provenance, State, Step, StepResult, Verdict
from bestofq.core.errors import BrowserError, CheckpointError, ConfigError, InfraError, InputError, ModelError
from bestofq.core.observation import Observation, Task
from bestofq.core.seeds import episode_seed
from bestofq.reports.costs import agent_costs
from bestofq.rollouts.episode import EpisodeOptions, record_episode, run_episode
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

TASKS = [line_task(f"t{number}", 3) for number in range(12)]


async def collect(store: Store, give_up_after: int = 20, **settings: object) -> list[EpisodeSummary]:
    await store.begin_run("r", {}, Provenance(version="test"))
    options = RunOptions(step_limit=12, give_up_after=give_up_after)
    given = {"tasks": TASKS, "make_env": maker(), "agent": line_agent(), "options": options, **settings}
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

    with Store.open(tmp_path) as store:
        call = asyncio.create_task(collect(store, make_env=maker(Stuck), concurrency=2))
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


ON = [["click [2]", "click [1]"]] * 30
BACK = [["click [1]"]] * 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


async def run(store: Store, env: LineEnv, replies: object = ON, repeat: int = 0, **settings: Any) -> Episode:
    await store.begin_run("r", {}, Provenance(version="test"))
    agent = line_agent(selector=GreedySelector(), replies=replies)
    options = EpisodeOptions(**settings)
    episode = await record_episode(agent, env, line_task("t", 3), store=store, run="r", repeat=repeat, options=options)
    assert store.episode(episode.id) == episode
    return episode


class Fails:
    """A scorer whose endpoint does not answer."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> NoReturn:
        raise ModelError("no reply in 3 attempts")


class Breaks(LineEnv):
    """Raises on its second step."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def step(self, action: Action) -> StepResult:
        if self.at == 1:
            raise self.error
        return await super().step(action)


async def test_success_is_the_environments_reward(store: Store) -> None:
    episode = await run(store, LineEnv())
    assert episode.verdict == Verdict(reward=1.0, outcome="success")
    assert [step.observation.title for step in episode.steps] == ["Page 0", "Page 1", "Page 2"]
    assert [(step.reward, step.terminated) for step in episode.steps] == [(0.0, False), (0.0, False), (1.0, True)]
    assert [len(step.decision.candidates) for step in episode.steps] == [2, 2, 2]
    assert episode.final.title == "Page 3"
    assert episode.provenance.seed == episode_seed(0, "r", "walker", line_task("t", 3), 0)
    assert store.summaries()[0].success


async def test_running_out_of_steps_is_a_failure_that_terminates(store: Store) -> None:
    episode = await run(store, LineEnv(), BACK, step_limit=5)
    assert episode.verdict == Verdict(reward=0.0, outcome="failure", reason="ran out of its 5 steps")
    assert [step.terminated for step in episode.steps] == [False] * 4 + [True]
    assert not any(step.truncated for step in episode.steps)


async def test_a_broken_browser_or_a_bug_cuts_the_episode(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Step] = []
    episode = await run(store, Breaks(BrowserError("Chromium crashed")), on_step=heard.append)
    assert episode.verdict == Verdict(reward=0.0, outcome="infra_error", reason="BrowserError: Chromium crashed")
    assert [step.truncated for step in episode.steps] == [step.truncated for step in heard] == [False, True]
    assert store.summaries() == []
    assert store.summaries(status="cut")[0].steps == 2
    assert (await run(store, Breaks(KeyError("mark")), repeat=1)).verdict.outcome == "infra_error"
    assert "KeyError" in caplog.text


async def test_what_the_user_must_fix_is_raised(store: Store) -> None:
    with pytest.raises(CheckpointError, match="dim 320"):
        await run(store, Breaks(CheckpointError("the Q-function reads dim 320, the embedder gives 256")))
    assert store.summaries(run="r", agent="walker", status="running")[0].steps == 1


async def test_an_agent_without_a_valid_action_has_failed(store: Store) -> None:
    episode = await run(store, LineEnv(), [["click [2]"], ["click [9]"]])
    assert episode.verdict.outcome == "failure"
    assert "names mark 9" in episode.verdict.reason
    assert len(episode.steps) == 1


async def test_a_proposal_without_a_valid_action_is_kept_and_paid_for(store: Store) -> None:
    def never(_state: State, _n: int) -> list[str]:
        return ["fly", "click [9]"]

    for repeat in range(5):
        episode = await run(store, LineEnv(), never, repeat=repeat)
        assert episode.verdict.replies == ("fly", "click [9]")
        assert [(used.role, used.calls) for used in episode.usage] == [("proposer", 1)]
    (row,) = agent_costs(store).rows
    assert (row.tasks, row.roles["proposer"].calls) == (5, 5)
    summary = store.summaries()[0]
    assert (summary.steps, summary.verdict.replies, summary.judge) == (0, ("fly", "click [9]"), "")
    assert sum(used.calls for used in store.episode(summary.id).verdict.unstepped) == 1
    walked = await run(store, LineEnv(), repeat=9)
    assert (walked.verdict.replies, walked.verdict.unstepped) == (None, ())


async def test_what_was_used_before_the_machinery_failed_is_stored_and_paid_for(store: Store) -> None:
    await run(store, LineEnv())
    failing = line_agent(selector=GreedySelector(), replies=ON)
    failing = replace(failing, scorer=Fails())
    episode = await record_episode(failing, LineEnv(), line_task("t", 3), store=store, run="r", repeat=1)
    assert (episode.verdict.outcome, len(episode.steps)) == ("infra_error", 0)
    assert [(used.role, used.calls) for used in store.episode(episode.id).usage] == [("proposer", 1)]
    (row,) = agent_costs(store).rows
    assert (row.tasks, row.lost, row.roles["proposer"].calls) == (1, 1, 4)


async def test_an_impossible_action_is_an_error_in_the_next_observation(store: Store) -> None:
    episode = await run(store, LineEnv(), [["refresh"], ["click [2]"]], step_limit=2)
    assert episode.steps[1].observation.error == "only clicks work here"


async def test_the_judge_is_asked_at_an_end_only(store: Store) -> None:
    class Strict:
        name = "strict"

        async def judge(self, episode: Episode) -> Verdict:
            assert len(episode.steps) == 3
            return Verdict(reward=0.0, outcome="impossible", reason="there is no page 3")

    told = Verdict(reward=0.0, outcome="impossible", reason="there is no page 3", judge="strict")
    assert (await run(store, LineEnv(), judge=Strict())).verdict == told
    assert (await run(store, LineEnv(), BACK, judge=Strict(), repeat=2, step_limit=3)).verdict.outcome == "failure"


async def test_a_judge_that_fails_leaves_it_to_be_judged_later(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    class Fails:
        name = "fails"

        def __init__(self, error: Exception) -> None:
            self.error = error

        async def judge(self, episode: Episode) -> Verdict:
            raise self.error

    for repeat, error in enumerate((ModelError("no reply"), KeyError("verdict"))):
        episode = await run(store, LineEnv(), judge=Fails(error), repeat=repeat)
        assert (episode.verdict.outcome, episode.verdict.judge) == ("unjudged", "fails")
        assert store.summaries()[repeat].status == "finished"  # and so it is not run again
    assert "KeyError" in caplog.text
    with pytest.raises(ConfigError, match="the key is refused"):
        await run(store, LineEnv(), judge=Fails(ConfigError("the key is refused")), repeat=2)
    assert [summary.outcome for summary in store.summaries()] == ["unjudged"] * 3


async def test_without_a_reward_or_a_judge_nobody_has_judged(store: Store) -> None:
    class Silent(LineEnv):
        async def step(self, action: Action) -> StepResult:
            return (await super().step(action)).model_copy(update={"reward": None})

    episode = await run(store, Silent())
    assert episode.verdict == Verdict(reward=0.0, outcome="unjudged")
    assert [step.reward for step in episode.steps] == [0.0, 0.0, 0.0]


async def test_a_step_is_stored_before_the_next_is_decided(store: Store) -> None:
    class Looks:
        """Looks into the store each time it is asked."""

        async def propose(self, state: State, n: int) -> Proposal:
            (now,) = store.summaries(run="r", agent="looker", status="running")
            assert now.steps == len(state.decisions)
            stored = store.episode(now.id).steps
            assert tuple(step.decision for step in stored) == state.decisions
            return Proposal(candidates=(Candidate(action={"kind": "click", "mark": 2}, label="click link one on"),))

    await store.begin_run("r", {}, Provenance(version="test"))
    looker = line_agent(name="looker", selector=GreedySelector())
    looker = type(looker)(name="looker", proposer=Looks(), scorer=looker.scorer, selector=looker.selector)
    episode = await record_episode(looker, LineEnv(), line_task("t", 3), store=store, run="r")
    assert episode.verdict.outcome == "success"


async def test_an_agent_sees_its_past_and_never_a_reward(store: Store) -> None:
    seen: list[tuple[Decision, ...]] = []

    def replies(state: State, n: int) -> list[str]:
        seen.append(state.decisions)
        return ["click [2]"]

    episode = await run(store, LineEnv(), replies)
    assert [len(decisions) for decisions in seen] == [0, 1, 2]
    assert seen[2] == tuple(step.decision for step in episode.steps[:2])
    assert "reward" not in State.model_fields


async def test_the_main_loop_needs_no_store(store: Store) -> None:
    agent = line_agent(selector=GreedySelector(), replies=ON)
    episode = await run_episode(agent, LineEnv(), line_task("t", 3))
    stored = await run(store, LineEnv())
    assert episode.verdict == stored.verdict
    assert [step.decision.candidate for step in episode.steps] == [step.decision.candidate for step in stored.steps]
    broken = await run_episode(agent, Breaks(BrowserError("gone")), line_task("t", 3))
    assert broken.verdict.outcome == "infra_error"
    assert [step.truncated for step in broken.steps] == [False, True]
