"""The learned scorers: Q(s, a) alone (Best-of-Q, 3.3), and Q beside the proposer's own probability."""

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.core.decision import Candidate, Scores, State
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import InputError
from bestofq.core.protocols import Embedder
from bestofq.core.transitions import Floats
from bestofq.core.usage import Usage
from bestofq.models.prices import Price, price_of


class Values(Protocol):
    """Q and V over embeddings, as `learning.value.ValueModel`, and what they were trained on."""

    embed: EmbedSpec  # of the vectors they read
    train_n: int  # N, candidates that the training episodes chose among
    checkpoint: str | None  # names the file they were read from
    discount: float | None  # of their training

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats: ...

    def v(self, state: Floats, task: Floats) -> Floats: ...

    def prepare(self, state: Floats, task: Floats) -> None: ...


class QScorer:
    """Scores are Q-values; V(s) goes with them, and the name of the checkpoint that both are from, where it has one.
    It costs what its embedder reads (Best-of-Q, 4.4)."""

    def __init__(
        self,
        values: Values,
        embedder: Embedder,
        texts: EmbeddingTexts,
        *,
        checkpoint: str | None = None,
        price: Price | None = None,
    ) -> None:
        """`price`: of the embedder; None: Table 13's, where its model is there."""
        self._values = values
        self._checkpoint = checkpoint
        self._embedder = embedder
        self._texts = texts
        self._price = price_of(embedder.spec.model) if price is None else price

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        """Embed state and task while the candidates are being proposed. `seconds` pass beside the proposer's."""
        started = time.perf_counter()
        vectors, tokens = await self._embedder.embed([self._texts.state(state), self._texts.task(state.task)])
        self._values.prepare(vectors[:1], vectors[1:])
        return (self._usage(tokens, started),)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """Q(s, a_i) for each candidate [N]."""
        started = time.perf_counter()
        vectors, tokens = await self._embedder.embed(
            [
                self._texts.state(state),
                self._texts.task(state.task),
                *(self._texts.action(state, candidate) for candidate in candidates),
            ]
        )
        here, task, actions = vectors[:1], vectors[1:2], vectors[None, 2:]  # [1, D], [1, D], [1, N, D]
        return Scores(
            values=tuple(self._values.q(here, actions, task)[0].tolist()),
            state_value=float(self._values.v(here, task)[0]),
            checkpoint=self._checkpoint,
            usage=(self._usage(tokens, started),),
        )

    def _usage(self, tokens: int, started: float) -> Usage:
        seconds = time.perf_counter() - started
        return Usage(role="embedder", tokens_in=tokens, calls=1, seconds=seconds, usd=self._price.usd(tokens, 0))


class PriorScorer:
    """log π(a|s) + Q(s, a) / β: the optimum of maximising Q under a KL penalty of weight β to the proposer, read at
    inference (Agent Q, Eq. 9). Small β trusts Q, large β the proposer."""

    def __init__(self, scorer: QScorer, *, beta: float) -> None:
        self._scorer = scorer
        self._beta = beta

    async def prepare(self, state: State) -> tuple[Usage, ...]:
        return await self._scorer.prepare(state)

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """InputError when one of several candidates has no log-probability. An only one needs none: its score is Q / β
        where it has none."""
        scores = await self._scorer.score(state, candidates)
        log_probs = [candidate.log_prob for candidate in candidates]
        if log_probs == [None]:
            log_probs = [0.0]
        if None in log_probs:
            raise InputError("this proposer gives no log-probabilities: use the agent best-of-q instead of prior")
        combined = np.array(log_probs, dtype=np.float64) + np.array(scores.values) / self._beta
        return scores.model_copy(update={"values": tuple(combined.tolist())})
