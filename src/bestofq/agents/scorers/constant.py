"""The scorer of agents that do not rank: Prompting, Random action, ε-greedy."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.core.decision import Candidate, Scores, State


@dataclass(frozen=True)
class ConstantScorer:
    """The same score for each candidate."""

    value: float = 0.0

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        return Scores(values=(self.value,) * len(candidates))
