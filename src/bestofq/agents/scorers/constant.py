"""Scorers that read nothing: of agents that do not rank (Prompting, Random action, ε-greedy), and of votes."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.decision import Candidate, Scores, State


@dataclass(frozen=True)
class ConstantScorer:
    """The same score for each candidate."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=(0.0,) * len(candidates))


@dataclass(frozen=True)
class VoteScorer:
    """How many of the proposer's replies gave each candidate (self-consistency, Wang et al. 2022)."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=tuple(float(candidate.votes or 1) for candidate in candidates))
