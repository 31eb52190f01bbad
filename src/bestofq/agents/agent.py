"""The agent: propose N, score them, select one (Best-of-Q, 3.3, Fig. 1)."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.counted import attach_usage
from bestofq.core.decision import Decision, Proposal, Scores, State
from bestofq.core.errors import BestOfQError, ConfigError, ModelError, ReplyError
from bestofq.core.placing import locate_candidate
from bestofq.core.protocols import Localizer, Prefetching, Proposer, Scorer, Selector
from bestofq.core.tracing import span, trace_call
from bestofq.core.usage import Usage, merge_usage


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A proposer, a scorer and a selector, in which alone the paper's settings differ; by default Prompting."""

    name: str
    proposer: Proposer
    scorer: Scorer = field(default_factory=ConstantScorer)
    selector: Selector = field(default_factory=GreedySelector)
    n_candidates: int = 3  # Best-of-Q, 3.3: N = 3
    localizer: Localizer | None = None

    async def decide(self, state: State, rng: np.random.Generator) -> Decision:
        """Weigh the candidates and take one. ReplyError without any, ModelError on a NaN score, ConfigError
        where the scorer gives not one score each; they keep the usage."""
        with span("decide", agent=self.name, step=len(state.decisions)):
            return await self._decide(state, rng)

    async def _decide(self, state: State, rng: np.random.Generator) -> Decision:
        proposing = trace_call("propose", self.proposer.propose, state, self.n_candidates)
        proposal, prepared = await _meanwhile(proposing, self.scorer, state)
        used = [*proposal.usage, *prepared]
        with attach_usage(used):
            if not proposal.candidates:
                raise ReplyError(f"the proposer of {self.name} offered no action")
            scores = await trace_call("score", self.scorer.score, state, proposal.candidates)
            if not isinstance(scores, Scores):
                given = type(scores).__name__
                raise ConfigError(f"the scorer of {self.name} gave a {given}: it must give bestofq.Scores")
            used += scores.usage
            if len(scores.values) != (count := len(proposal.candidates)):
                raise ConfigError(f"the scorer of {self.name} gave {len(scores.values)} scores for {count} candidates")
            values = np.asarray(scores.values, dtype=np.float32)  # [N]
            if np.isnan(values).any():
                raise ModelError(f"the scorer of {self.name} gave NaN among {scores.values}")
            choice = self.selector.select(values, rng)
            decision = Decision(
                candidates=proposal.candidates,
                scores=scores.values,
                state_value=scores.state_value,
                chosen=choice.index,
                explored=choice.explored,
                scorer=type(self.scorer).__name__,
                checkpoint=scores.checkpoint,
                visits=scores.visits,
                feedback=scores.feedback,
                usage=merge_usage(used),
            )
            return decision if self.localizer is None else await localize_target(decision, state, self.localizer)


async def _meanwhile(
    proposing: Coroutine[Any, Any, Proposal], scorer: Scorer, state: State
) -> tuple[Proposal, tuple[Usage, ...]]:
    """The proposal, and what the scorer used beside it: embedding the state hides behind the model's latency. Where one
    fails the other is stopped, but for ReplyError: then the scorer ends first. Errors keep the usage."""
    if not isinstance(scorer, Prefetching):
        return await proposing, ()
    thinking = asyncio.ensure_future(proposing)
    preparing = asyncio.ensure_future(trace_call("prepare", scorer.prepare, state))
    try:
        return await asyncio.gather(thinking, preparing)
    except BestOfQError as error:
        if isinstance(error, ReplyError):
            await asyncio.wait([preparing])
        proposed = thinking.result().usage if is_ended(thinking) else ()
        error.usage = merge_usage((*proposed, *error.usage, *(preparing.result() if is_ended(preparing) else ())))
        raise
    finally:
        for task in (thinking, preparing):
            task.cancel()
        await asyncio.gather(thinking, preparing, return_exceptions=True)


def is_ended(task: asyncio.Future[Any]) -> bool:
    """Whether it has a result."""
    return task.done() and not task.cancelled() and task.exception() is None


async def localize_target(decision: Decision, state: State, localizer: Localizer) -> Decision:
    """The decision with its chosen target in words given a point."""
    candidate, used = await locate_candidate(decision.candidate, state.observation, localizer)
    candidates = list(decision.candidates)
    candidates[decision.chosen] = candidate
    usage = merge_usage((*decision.usage, *used))
    return decision.model_copy(update={"candidates": tuple(candidates), "usage": usage})
