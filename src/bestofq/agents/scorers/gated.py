"""Values behind a gate: a decision leaves the proposer's first candidate only if the evidence is strong enough."""

from collections.abc import Sequence
from dataclasses import dataclass

from bestofq.agents.scorers.learned import QScorer
from bestofq.agents.scorers.memory import MemoryScorer, memory_keys
from bestofq.core.decision import Candidate, GateReading, Scores, State
from bestofq.core.gate import Gate
from bestofq.core.usage import Usage
from bestofq.learning.memory import Memory


@dataclass(frozen=True)
class GatedScorer:
    """The scorer's values, and whether the best candidate may be taken instead of the first."""

    scorer: QScorer | MemoryScorer
    memory: Memory
    gate: Gate

    @property
    def checkpoint(self) -> str | None:
        return self.gate.checkpoint

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        return await self.scorer.prepare(state)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        scores = await self.scorer.score(state, candidates)
        best = max(range(len(candidates)), key=scores.values.__getitem__)
        if best == 0:
            return scores
        level = self.memory.familiarity(memory_keys(state, candidates)[best])
        margin, threshold = scores.values[best] - scores.values[0], self.gate.thresholds[level]
        opened = threshold is not None and margin > threshold
        reading = GateReading(open=opened, margin=margin, threshold=threshold, level=level)
        return scores.model_copy(update={"gate": reading})
