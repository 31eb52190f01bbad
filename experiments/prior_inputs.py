"""The proposer's log-probability and rank as two more inputs of Q: it can correct the prior instead of replacing it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.core.decision import DECIDED, Candidate, Episode, Scores, State
from bestofq.core.protocols import Embedder
from bestofq.core.transitions import Floats, Transitions
from bestofq.learning.value import ValueModel


def prior_of(candidates: Sequence[Candidate], index: int) -> tuple[float, float]:
    """A candidate's log-probability / 10, and 1 where it is the proposer's first, else 0."""
    return (candidates[index].log_prob or 0.0) / 10, float(index == 0)


def taken_priors(episodes: Iterable[Episode]) -> Floats:
    """[T, 2], `prior_of` what each step took, in the order of `rollouts.transitions.records`."""
    decided = (episode for episode in episodes if episode.verdict.outcome in DECIDED)
    steps = (step.decision for episode in decided for step in episode.steps)
    return np.array([prior_of(one.candidates, one.chosen) for one in steps], np.float32).reshape(-1, 2)


def with_priors(data: Transitions, priors: Floats) -> Transitions:
    """The training set with two numbers behind each vector [U + T, D + 2]: an action's are its step's own [T, 2]."""
    actions = np.concatenate([data.vectors[data.action], priors], 1)
    others = np.pad(data.vectors, ((0, 0), (0, 2)))
    rows = len(data.vectors) + np.arange(len(data))
    return replace(data, vectors=np.concatenate([others, actions]), action=rows)


@dataclass(frozen=True)
class PriorInputScorer:
    """`Scorer` of a Q-function that was learned `with_priors`."""

    values: ValueModel
    embedder: Embedder
    texts: EmbeddingTexts

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        """Q(s, a_i) [N]."""
        items = (
            self.texts.state(state),
            self.texts.task(state.task),
            *(self.texts.action(state, c) for c in candidates),
        )
        found, _ = await self.embedder.embed(items)
        vectors = np.pad(found, ((0, 0), (0, 2)))  # [2 + N, D + 2]
        vectors[2:, -2:] = [prior_of(candidates, index) for index in range(len(candidates))]
        return Scores(values=tuple(self.values.q(vectors[:1], vectors[None, 2:], vectors[1:2])[0].tolist()))
