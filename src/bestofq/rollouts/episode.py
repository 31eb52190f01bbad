"""One episode: state → decide → act → step, committed before the next begins; it can go on from its last step."""

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
from bestofq.core.protocols import Env, Forgets, Judge, Resumes
from bestofq.core.repeating import DivergedError
from bestofq.core.seeds import episode_seed
from bestofq.core.tracing import span
from bestofq.core.usage import Usage, merge_usage
from bestofq.rollouts.resuming import MayRepeat, repeat_steps, seems_safe, with_pictures
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
    may_repeat: MayRepeat | None = seems_safe  # to go on with an episode that broke off; None: it is begun anew
    go_on_when_cut: bool = False  # an episode that the machinery cuts stays running, for the caller to resume
    on_decision: Callable[[State, Decision], None] | None = None  # before the action is carried out
    on_step: Callable[[Step], None] | None = None  # once it is stored


DEFAULTS = EpisodeOptions()


async def run_episode(
    env: Env,
    agent: Agent,
    task: Task,
    *,
    store: Store,
    run: str,
    repeat: int = 0,
    options: EpisodeOptions = DEFAULTS,
    begun: Episode | None = None,
) -> Episode:
    """Run and store one episode of a run that was begun.

    `begun`: one that is running in the store, since its process has died or it was cut (`options.go_on_when_cut`). It
    goes on from its last step, once its actions led to the same pages again (`resuming.py`), in the latter case with
    the decision that it was cut in; where they do not, it is left `interrupted` or `cut`, and another begun.

    The verdict is the judge's, or without one the environment's last reward (success: reward 1; unjudged where it gives
    none). Running out of `step_limit` steps is a failure with reward 0, and no judge is asked. What the machinery
    breaks is outcome infra_error (see `_verdict_of`); a judge that fails leaves the episode unjudged, so that it can be
    judged later without being run again (`recipes/judging.py`).

    Raises: SetupError, InputError, CheckpointError: what the user must fix; the episode then stays without a verdict,
    or unjudged where it was the judge's fault.
    """
    own = episode_seed(options.seed, run, agent.name, task, repeat)
    provenance = (options.provenance or Provenance(version=__version__)).model_copy(
        update={"seed": own, "started_at": datetime.now(UTC).isoformat()}
    )
    play = _Play(env, agent, task, store, options)
    if begun is not None and await play.go_on(begun, own):
        provenance = begun.provenance
    else:
        play.episode = await store.begin_episode(run, agent.name, task, repeat, provenance)
    with span("episode", run=run, agent=agent.name, task=task.id):
        verdict = await play.out(own)
    if isinstance(agent.scorer, Forgets):
        await agent.scorer.forget(task, own)
    if play.unpaid:
        verdict = verdict.model_copy(update={"usage": merge_usage((*verdict.usage, *play.unpaid))})
    episode = Episode(
        id=play.episode,
        run=run,
        agent=agent.name,
        task=task,
        steps=(*play.steps, *play.in_flight),
        final=play.final,
        verdict=verdict,
        provenance=provenance,
    )
    if play.is_resumable(verdict):
        return episode
    failure: Exception | None = None
    if options.judge is not None and ended_by_itself(verdict):
        verdict, failure = await _judge_episode(options.judge, episode)
    await play.finish(episode, verdict)
    if failure is not None:
        raise failure
    return episode.model_copy(update={"verdict": verdict})


def ended_by_itself(verdict: Verdict | EpisodeSummary) -> bool:
    """Whether a judge may say how it ended: not where it ran out of steps, had no valid action, or was cut."""
    return bool(verdict.judge) or not verdict.reason


@dataclass
class _Play:
    """An episode being played: its steps so far, and what the page shows now."""

    env: Env
    agent: Agent
    task: Task
    store: Store
    options: EpisodeOptions
    episode: str = ""
    steps: list[Step] = field(default_factory=list)
    final: Observation | None = None
    last: StepResult | None = None
    in_flight: tuple[Step, ...] = ()  # the one that was cut, and is not stored
    unpaid: tuple[Usage, ...] = ()  # of decisions that came to nothing, in an episode that goes on
    broken: Verdict | None = None  # where the machinery broke before the first step

    def is_resumable(self, verdict: Verdict) -> bool:
        """Whether the episode was cut and is left for the caller to resume."""
        options = self.options
        return verdict.outcome == "infra_error" and options.go_on_when_cut and options.may_repeat is not None

    async def finish(self, episode: Episode, verdict: Verdict) -> None:
        """Commit how an episode ended, and the step that it was cut in."""
        for step in episode.steps[-1:]:
            if step.truncated:
                await self._store(episode.id, step)
        await self.store.finish_episode(episode.id, verdict, episode.final)

    async def go_on(self, begun: Episode, seed: int) -> bool:
        """Whether the episode goes on: the environment is put where its last step led, or broke on the way."""
        steps, last = [*begun.steps], None
        try:
            if self.options.may_repeat is None or (begun.task, begun.provenance.seed) != (self.task, seed):
                raise DivergedError("its task or its draws are others now")
            steps = with_pictures(begun.steps, self.store)
            last = await repeat_steps(self.env, begun, self.options.may_repeat)
        except InfraError as error:
            self.broken = _verdict_of(error)
        except Exception as error:  # whatever it is: the next try begins at the start, and says what is wrong
            log.info("episode %s is begun anew: %s", begun.id, error)
            if begun.verdict.reason == "running":
                await self.store.interrupt(begun.run, begun.agent, only=[begun.id])
            else:
                await self.finish(begun, begun.verdict)
            return False
        self.episode, self.final, self.unpaid = begun.id, begun.final, begun.verdict.unstepped
        self.in_flight = tuple(step for step in steps[-1:] if step.truncated)
        self.steps = steps[: len(steps) - len(self.in_flight)]
        if last is not None:
            self.last, self.final = last, last.observation
            for step in self.in_flight:
                await self._commit(step.observation, step.decision, last)
        if isinstance(self.agent.scorer, Resumes):
            await self.agent.scorer.resume(self.task, seed, [step.observation for step in self.steps])
        return True

    async def out(self, seed: int) -> Verdict:
        """Play to the end, with draws from `seed`; the environment's verdict."""
        if self.broken is not None:
            return self.broken
        if self.last is None:
            try:
                self.final = await self.env.reset(self.task, seed=self.task.seed)
            except Exception as error:
                return _verdict_of(error)
        elif ended := _final_verdict(self.last):
            return ended
        assert self.final is not None
        observation = self.final
        while len(self.steps) < self.options.step_limit:
            state = state_at(self.task, self.steps, observation, seed=seed)
            try:
                decision = await self.agent.decide(state, np.random.default_rng(state.step_seed))
            except Exception as error:
                return _verdict_of(error)
            if self.options.on_decision is not None:
                self.options.on_decision(state, decision)
            try:
                with span("act", action=decision.candidate.action.kind):
                    result = await self.env.step(decision.candidate.action)
            except Exception as error:
                verdict = _verdict_of(error)
                await self._commit(observation, decision, StepResult(observation=observation, truncated=True))
                return verdict
            await self._commit(observation, decision, result)
            self.final = observation = result.observation
            if ended := _final_verdict(result):
                return ended
        return Verdict(reward=0.0, outcome="failure", reason=f"ran out of its {self.options.step_limit} steps")

    async def _commit(self, observation: Observation, decision: Decision, result: StepResult) -> None:
        if more := (*result.usage, *self.unpaid):
            decision = decision.model_copy(update={"usage": merge_usage((*decision.usage, *more))})
        self.unpaid = self.in_flight = ()
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
            return
        await self._store(self.episode, step)
        self.steps.append(step)

    async def _store(self, episode: str, step: Step) -> None:
        await self.store.append_step(episode, step)
        if self.options.on_step is not None:
            self.options.on_step(step)


def _final_verdict(last: StepResult) -> Verdict | None:
    """The verdict on an episode that its last action ended; None where it did not. One that ended by itself has no
    reason (see `ended_by_itself`)."""
    if last.truncated:
        return Verdict(reward=0.0, outcome="infra_error", reason="the environment was cut off")
    if not last.terminated:
        return None
    reward = last.reward
    if reward is None:
        return Verdict(reward=0.0, outcome="unjudged")
    return Verdict(reward=reward, outcome="success" if reward >= 1.0 else "failure")


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
