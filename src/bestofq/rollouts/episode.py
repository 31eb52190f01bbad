"""One episode: state → decide → act → step. Each step is committed before the next begins, so that it can resume."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from bestofq import __version__
from bestofq.agents.agent import Agent
from bestofq.core.decision import Decision, Episode, Provenance, State, Step, StepResult, Verdict, state_at
from bestofq.core.errors import BestOfQError, InfraError, ReplyError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env, Judge, Remembers
from bestofq.core.repeating import DivergedError, Unsafe
from bestofq.core.seeds import episode_seed
from bestofq.core.usage import Usage, merge_usage
from bestofq.rollouts.resuming import repeat_steps, with_pictures
from bestofq.safety.irreversible import seems_irreversible
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

STEP_LIMIT = 30  # Best-of-Q, appendix K

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How an episode is played."""

    seed: int = 0
    step_limit: int = STEP_LIMIT
    judge: Judge | None = None  # None: the environment's reward tells
    provenance: Provenance | None = None  # None: this version alone
    irreversible: Unsafe | None = seems_irreversible  # what no resumed episode repeats; None: a sandbox, nothing is
    go_on_when_cut: bool = False  # an episode that the machinery cuts stays running, for the caller to resume
    on_decision: Callable[[State, Decision], None] | None = None  # before the action is carried out
    on_step: Callable[[Step], None] | None = None  # once it is stored


DEFAULTS = EpisodeOptions()


async def run_episode(agent: Agent, env: Env, task: Task, record: "EpisodeRecord | None" = None) -> Episode:
    """Run one episode: observe, decide, act, record. This is the main loop; it needs no store.

    `record` keeps the steps, and limits them; that of `record_episode` commits each to a store. An error of the agent
    or the environment ends the episode with a verdict; what the user must fix is raised (`_verdict_of`).
    """
    record = record or EpisodeRecord(agent.name, task)
    try:
        result = await record.start(env)
        while not (result.terminated or result.truncated) and len(record.steps) < record.options.step_limit:
            state = state_at(task, record.steps, result.observation, seed=record.seed)
            decision = await agent.decide(state, np.random.default_rng(state.step_seed))
            record.begin_step(state, decision)
            result = await env.step(decision.candidate.action)
            await record.end_step(result)
        verdict = record.final_verdict(result)
    except Exception as error:
        verdict = _verdict_of(error)
        await record.cut_step()
    return record.to_episode(verdict)


async def record_episode(
    agent: Agent,
    env: Env,
    task: Task,
    *,
    store: Store,
    run: str,
    repeat: int = 0,
    options: EpisodeOptions = DEFAULTS,
    begun: Episode | None = None,
) -> Episode:
    """Run one episode of a run that was begun, and commit each step to the store before the next one begins.

    Args:
        begun: an episode that is `running` in the store because its process died, or that was cut
            (`options.go_on_when_cut`). It continues from its last step if its actions lead to the same pages again
            (`resuming.py`). If it was cut, it first repeats the decision of that step. If the pages differ, it is left
            `interrupted` or `cut`, and another episode begins.

    The verdict is the judge's, or without one the environment's last reward (success: reward 1; unjudged if there is
    none). An episode that runs out of `step_limit` steps is a failure with reward 0, and no judge is called. A failure
    of the machinery is outcome infra_error. If the judge fails, the episode stays unjudged, and `bestofq judge` can
    judge it later.

    Raises: SetupError, InputError, CheckpointError: what the user must fix; the episode then stays without a verdict,
    or unjudged if it was the judge's fault.
    """
    seed = episode_seed(options.seed, run, agent.name, task, repeat)
    record = EpisodeRecord(agent.name, task, seed, options, run, store)
    if begun is None or not await record.resume(begun, agent, env):
        record.id = await store.begin_episode(run, agent.name, task, repeat, record.provenance)
    episode = await run_episode(agent, env, task, record)
    verdict = episode.verdict
    if isinstance(agent.scorer, Remembers):
        await agent.scorer.forget(task, seed)
    if verdict.outcome == "infra_error" and options.go_on_when_cut:
        return episode  # the caller resumes it
    failure: Exception | None = None
    if options.judge is not None and ended_by_itself(verdict):
        verdict, failure = await _judge_episode(options.judge, episode)
    await record.finish(episode, verdict)
    if failure is not None:
        raise failure
    return episode.model_copy(update={"verdict": verdict})


def ended_by_itself(verdict: Verdict | EpisodeSummary) -> bool:
    """Whether a judge may say how it ended: not where it ran out of steps, had no valid action, or was cut."""
    return bool(verdict.judge) or not verdict.reason


@dataclass
class EpisodeRecord:
    """An episode so far: its steps, and the last result. Each step is committed to the store, if there is one."""

    agent: str
    task: Task
    seed: int = 0  # of the episode's draws
    options: EpisodeOptions = DEFAULTS
    run: str = ""
    store: Store | None = None
    id: str = ""
    steps: list[Step] = field(default_factory=list)
    final: Observation | None = None
    last: StepResult | None = None
    in_flight: tuple[Step, ...] = ()  # the step that was cut; it is not stored yet
    unpaid: tuple[Usage, ...] = ()  # of decisions without a step, in an episode that continues
    broken: InfraError | None = None  # the machinery failed while the episode was resumed
    _begun: tuple[Observation, Decision] | None = None  # the step whose action is being carried out

    def __post_init__(self) -> None:
        known = self.options.provenance or Provenance(version=__version__)
        now = datetime.now(UTC).isoformat()
        self.provenance = known.model_copy(update={"seed": self.seed, "started_at": now})

    async def start(self, env: Env) -> StepResult:
        """What the page shows before the first step, or after the last one of a resumed episode."""
        if self.broken is not None:
            raise self.broken
        if self.last is None:
            self.last = StepResult(observation=await env.reset(self.task, seed=self.task.seed))
            self.final = self.last.observation
        return self.last

    def begin_step(self, state: State, decision: Decision) -> None:
        if self.options.on_decision is not None:
            self.options.on_decision(state, decision)
        self._begun = state.observation, decision

    async def end_step(self, result: StepResult) -> None:
        """Commit the step that was begun. One that was cut is not stored yet: the episode may continue with it."""
        assert self._begun is not None
        (observation, decision), self._begun = self._begun, None
        if self.unpaid:
            decision = decision.model_copy(update={"usage": merge_usage((*decision.usage, *self.unpaid))})
        self.unpaid = self.in_flight = ()
        self.last, self.final = result, result.observation
        step = Step(
            index=len(self.steps),
            observation=observation,
            decision=decision,
            reward=result.reward or 0.0,
            terminated=result.terminated or (not result.truncated and len(self.steps) + 1 == self.options.step_limit),
            truncated=result.truncated,
        )
        if result.truncated:
            self.in_flight = (step,)
        else:
            await self._store(self.id, step)
            self.steps.append(step)

    async def cut_step(self) -> None:
        if self._begun is not None:
            await self.end_step(StepResult(observation=self._begun[0], truncated=True))

    def final_verdict(self, last: StepResult) -> Verdict:
        """The verdict by the last result. Only that of an episode that `ended_by_itself` has no reason."""
        if last.truncated:
            return Verdict(reward=0.0, outcome="infra_error", reason="the environment was cut off")
        if not last.terminated:
            return Verdict(reward=0.0, outcome="failure", reason=f"ran out of its {self.options.step_limit} steps")
        if last.reward is None:
            return Verdict(reward=0.0, outcome="unjudged")
        return Verdict(reward=last.reward, outcome="success" if last.reward >= 1.0 else "failure")

    def to_episode(self, verdict: Verdict) -> Episode:
        """The episode with all steps so far. The verdict pays for decisions that led to no step."""
        if self.unpaid:
            verdict = verdict.model_copy(update={"usage": merge_usage((*verdict.usage, *self.unpaid))})
        return Episode(
            id=self.id,
            run=self.run,
            agent=self.agent,
            task=self.task,
            steps=(*self.steps, *self.in_flight),
            final=self.final,
            verdict=verdict,
            provenance=self.provenance,
        )

    async def finish(self, episode: Episode, verdict: Verdict) -> None:
        """Commit how an episode ended, and the step that it was cut in."""
        assert self.store is not None
        for step in episode.steps[-1:]:
            if step.truncated:
                await self._store(episode.id, step)
        await self.store.finish_episode(episode.id, verdict, episode.final)

    async def resume(self, begun: Episode, agent: Agent, env: Env) -> bool:
        """Whether the episode continues: the environment shows the page after its last step, or failed on the way."""
        assert self.store is not None
        steps, last = begun.steps, None
        try:
            if (begun.task, begun.provenance.seed) != (self.task, self.seed):
                raise DivergedError("its task or its draws are others now")
            steps = with_pictures(begun, self.store).steps
            last = await repeat_steps(env, begun, self.options.irreversible)
        except InfraError as error:
            self.broken = error
        except Exception as error:  # whatever it is: the next try begins at the start, and says what is wrong
            log.info("episode %s is begun anew: %s", begun.id, error)
            if begun.verdict.reason == "running":
                await self.store.interrupt(begun.run, begun.agent, only=[begun.id])
            else:
                await self.finish(begun, begun.verdict)
            return False
        self.id, self.provenance = begun.id, begun.provenance
        self.final, self.unpaid = begun.final, begun.verdict.unstepped
        self.in_flight = tuple(step for step in steps[-1:] if step.truncated)
        self.steps = [*steps[: len(steps) - len(self.in_flight)]]
        if last is not None:
            self.last, self.final = last, last.observation
            for step in self.in_flight:
                self._begun = step.observation, step.decision
                await self.end_step(last)
        if isinstance(agent.scorer, Remembers):
            await agent.scorer.resume(self.task, self.seed, [step.observation for step in self.steps])
        return True

    async def _store(self, episode: str, step: Step) -> None:
        if self.store is not None:
            await self.store.append_step(episode, step)
        if self.options.on_step is not None:
            self.options.on_step(step)


async def _judge_episode(judge: Judge, episode: Episode) -> tuple[Verdict, Exception | None]:
    """The judge's verdict; where it fails, unjudged with the reason, and the error if the user must fix it."""
    try:
        verdict = await judge.judge(episode)
    except Exception as error:
        ours = isinstance(error, BestOfQError)
        log.warning("an episode stays unjudged: %s", error, exc_info=None if ours else error)
        reason, usage = f"{type(error).__name__}: {error}", error.usage if isinstance(error, BestOfQError) else ()
        unjudged = Verdict(reward=0.0, outcome="unjudged", reason=reason, judge=judge.name, usage=usage)
        return unjudged, error if ours and not isinstance(error, InfraError | ReplyError) else None
    return verdict if verdict.judge else verdict.model_copy(update={"judge": judge.name}), None


def _verdict_of(error: Exception) -> Verdict:
    """The one place where an exception becomes data. ReplyError: the agent failed. InfraError: the machinery did. Other
    errors of ours are raised. Anything else is a fault in the code: cut, its traceback in the log."""
    usage: tuple[Usage, ...] = ()
    match error:
        case ReplyError():
            return Verdict(reward=0.0, outcome="failure", reason=str(error), usage=error.usage, replies=error.replies)
        case InfraError():
            usage = error.usage
        case BestOfQError():
            raise error
        case _:
            log.error("an episode was cut by a fault in the code", exc_info=error)
    return Verdict(reward=0.0, outcome="infra_error", reason=f"{type(error).__name__}: {error}", usage=usage)
