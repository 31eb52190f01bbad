"""A vote, and an arbiter where the vote is contested (CATTS, arXiv 2602.12276).

The paper draws N replies, lets a model cluster those that mean the same, and has p(a) = votes of a / N. Its arbiter, a
model, decides on disputed steps; CATTS asks it only where the entropy of p, or its top-2 margin, says that the vote is
contested. Here replies are clustered by what they do on the page (`core.decision.distinct`), which asks no model, and p
is over the candidates that are offered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats

Contested = Callable[[Floats], bool]
"""Whether a vote with these shares [N], N > 1, is left to the arbiter."""


@dataclass(frozen=True)
class ArbiterScorer:
    """The arbiter's scores where the vote is contested; elsewhere, and where the arbiter finds all equal, the shares of
    the votes. It costs what the arbiter costs, on contested steps alone. Errors as the arbiter's."""

    arbiter: Scorer
    contested: Contested

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """[N]"""
        shares = vote_shares(candidates)
        vote = Scores(values=tuple(shares.tolist()))
        if len(candidates) == 1 or not self.contested(shares):
            return vote
        decided = await self.arbiter.score(state, candidates)
        if len(set(decided.values)) == 1:
            return vote.model_copy(update={"usage": decided.usage})
        return decided


def vote_shares(candidates: Sequence[Candidate]) -> Floats:
    """p(a) [N], which add up to 1."""
    votes = np.array([candidate.votes or 1 for candidate in candidates], np.float32)
    shares: Floats = votes / votes.sum()
    return shares


def no_majority(shares: Floats) -> bool:
    """No candidate has more than half of the votes."""
    return bool(shares.max() <= 0.5)


@dataclass(frozen=True)
class Uncertain:
    """The vote's uncertainty is above a threshold: H = -sum p ln p in nats, or 1 - (p1 - p2) by the top-2 margin."""

    by: str  # entropy or margin
    threshold: float

    def __call__(self, shares: Floats) -> bool:
        second, first = np.sort(shares)[-2:]
        uncertainty = -(shares * np.log(shares)).sum() if self.by == "entropy" else 1 - (first - second)
        return bool(uncertainty > self.threshold)
