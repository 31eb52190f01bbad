"""The learned scorers: Q(s, a) alone (Best-of-Q, 3.3), with the proposer's own probability, and behind a gate."""

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.memory import MemoryScorer, memory_keys
from bestofq.core.decision import Candidate, GateReading, Scores, State
from bestofq.core.errors import InputError
from bestofq.core.gate import Gate
from bestofq.core.protocols import Embedder
from bestofq.core.usage import Usage
from bestofq.learning.memory import Memory
from bestofq.models.prices import price_of

if TYPE_CHECKING:  # a memory needs no PyTorch
    from bestofq.learning.value import ValueModel

Values = Union[Memory, "ValueModel"]  # what ranks candidates


@dataclass(frozen=True)
class QScorer:
    """Q-values, with V(s) and their checkpoint's name. The cost is the tokens that the embedder reads (4.4)."""

    values: "ValueModel"
    embedder: Embedder
    texts: EmbeddingTexts
    _: KW_ONLY
    checkpoint: str | None = None

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        """Embed state and task while the proposer thinks. `seconds` overlap with the proposer's."""
        started = time.perf_counter()
        texts = [self.texts.state(state), self.texts.task(state.task)]
        _, tokens = await self.embedder.embed(texts)
        return (self._usage(tokens, started),)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """Q(s, a_i) for each candidate [N]."""
        started = time.perf_counter()
        texts = [self.texts.state(state), self.texts.task(state.task)]
        texts += [self.texts.action(state, candidate) for candidate in candidates]
        vectors, tokens = await self.embedder.embed(texts)
        here, task, actions = vectors[:1], vectors[1:2], vectors[None, 2:]  # [1, D], [1, D], [1, N, D]
        return Scores(
            values=tuple(self.values.q(here, actions, task)[0].tolist()),
            state_value=float(self.values.v(here, task)[0]),
            checkpoint=self.checkpoint,
            usage=(self._usage(tokens, started),),
        )

    def _usage(self, tokens: int, started: float) -> Usage:
        seconds, price = time.perf_counter() - started, price_of(self.embedder.spec.model)
        return Usage(role="embedder", tokens_in=tokens, calls=1, seconds=seconds, usd=price.usd(tokens, 0))


@dataclass(frozen=True)
class PriorScorer:
    """log π(a|s) + Q(s, a) / β: optimal under a KL penalty of weight β to the proposer (Agent Q, Eq. 9)."""

    scorer: QScorer | MemoryScorer
    _: KW_ONLY
    beta: float = 0.1

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        return await self.scorer.prepare(state)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """InputError when one of several candidates has no log-probability; an only one needs none."""
        scores = await self.scorer.score(state, candidates)
        log_probs = [candidate.log_prob for candidate in candidates]
        if log_probs == [None]:
            log_probs = [0.0]
        if None in log_probs:
            raise InputError("this proposer gives no log-probabilities: use the agent best-of-q instead of prior")
        combined = np.array(log_probs, dtype=np.float64) + np.array(scores.values) / self.beta
        return scores.model_copy(update={"values": tuple(combined.tolist())})


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
