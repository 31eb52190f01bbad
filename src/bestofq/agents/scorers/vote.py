"""The baseline that counts: what most of the proposer's replies gave (self-consistency, Wang et al. 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.decision import Candidate, Scores, State


@dataclass(frozen=True)
class VoteScorer:
    """A candidate's votes. It costs nothing, and of equals a greedy selector takes the proposer's first."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=tuple(float(candidate.votes or 1) for candidate in candidates))
