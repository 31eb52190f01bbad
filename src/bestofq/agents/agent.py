"""The agent: propose N, score them, select one (Best-of-Q, 3.3, Fig. 1)."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.core.decision import Choice, Decision, Proposal, Scores, State
from bestofq.core.errors import ConfigError, ModelError, ReplyError
from bestofq.core.protocols import Localizer, Prefetching, Proposer, Scorer, Selector
from bestofq.core.repeating import locate_candidate
from bestofq.core.usage import Usage, attach_usage, merge_usage


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A proposer, a scorer and a selector. The paper's agents differ only in these. The defaults are Prompting."""

    name: str
    proposer: Proposer
    scorer: Scorer = field(default_factory=ConstantScorer)
    selector: Selector = field(default_factory=GreedySelector)
    n_candidates: int = 3  # Best-of-Q, 3.3: N = 3
    localizer: Localizer | None = None

    async def decide(self, state: State, rng: np.random.Generator) -> Decision:
        """Score the candidates and choose one.

        ReplyError without a candidate, ModelError on a NaN score, ConfigError if the scorer does not give one score for
        each candidate. All carry the usage.
        """
        used: list[Usage] = []
        with attach_usage(used):
            candidates = (await self._propose(state, used)).candidates
            if not candidates:
                raise ReplyError(f"the proposer of {self.name} offered no action")
            scores = await self.scorer.score(state, candidates)
            if not isinstance(scores, Scores):
                kind = type(scores).__name__
                raise ConfigError(f"the scorer of {self.name} gave a {kind}: it must give bestofq.Scores")
            used += scores.usage
            if len(scores.values) != (count := len(candidates)):
                raise ConfigError(f"the scorer of {self.name} gave {len(scores.values)} scores for {count} candidates")
            values = np.asarray(scores.values, dtype=np.float32)  # [N]
            if np.isnan(values).any():
                raise ModelError(f"the scorer of {self.name} gave NaN among {scores.values}")
            choice = Choice(index=0) if scores.shut else self.selector.select(values, rng)
            if self.localizer is not None:
                chosen = candidates[choice.index]
                chosen, locating = await locate_candidate(chosen, state.observation, self.localizer)
                candidates = (*candidates[: choice.index], chosen, *candidates[choice.index + 1 :])
                used += locating
            return Decision(
                candidates=candidates,
                scores=scores.values,
                state_value=scores.state_value,
                chosen=choice.index,
                explored=choice.explored,
                scorer=type(self.scorer).__name__,
                checkpoint=scores.checkpoint,
                visits=scores.visits,
                feedback=scores.feedback,
                gate=scores.gate,
                usage=merge_usage(used),
            )

    async def _propose(self, state: State, used: list[Usage]) -> Proposal:
        """Propose while the scorer prepares: embedding the state hides behind the model's latency. What both used is
        added to `used`, also if one of them fails."""
        proposing = self.proposer.propose(state, self.n_candidates)
        if not isinstance(self.scorer, Prefetching):
            proposal = await proposing
            used += proposal.usage
            return proposal
        preparing = self.scorer.prepare(state)
        proposed, prepared = await asyncio.gather(proposing, preparing, return_exceptions=True)
        used += () if isinstance(proposed, BaseException) else proposed.usage
        used += () if isinstance(prepared, BaseException) else prepared
        if isinstance(proposed, BaseException):
            raise proposed
        if isinstance(prepared, BaseException):
            raise prepared
        return proposed
