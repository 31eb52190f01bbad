"""Which of N scored candidates is taken."""

from dataclasses import dataclass

import numpy as np

from bestofq.core.decision import Choice
from bestofq.core.errors import ConfigError
from bestofq.core.transitions import Floats


@dataclass(frozen=True)
class GreedySelector:
    """The highest score, the first among equals: Best-of-Q's argmax (3.3), and Prompting's only candidate."""

    def select(self, scores: Floats, rng: np.random.Generator) -> Choice:
        return Choice(index=int(np.argmax(scores)))


@dataclass(frozen=True)
class UniformSelector:
    """Any of the N with the same probability: the paper's Random action (4.1)."""

    def select(self, scores: Floats, rng: np.random.Generator) -> Choice:
        index = int(rng.integers(len(scores)))
        return Choice(index=index, explored=index > 0)

    def probabilities(self, count: int) -> Floats:
        """Of taking each of `count` candidates [count]."""
        return np.full(count, 1 / count, np.float32)


@dataclass(frozen=True)
class EpsilonGreedySelector:
    """The first candidate with probability 1 − ε, else one of the others, each as likely (A.2, Fig. 5). With one
    candidate there are no others and it is taken. Scores are not looked at: the order is the proposer's."""

    epsilon: float = 0.5  # Best-of-Q, A.2: 0.5 for the seed data; Fig. 5: between 0.3 and 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise ConfigError(f"epsilon is {self.epsilon}: give a probability, 0 to 1")

    def select(self, scores: Floats, rng: np.random.Generator) -> Choice:
        explores = rng.random() < self.epsilon
        if not explores or len(scores) == 1:
            return Choice(index=0)
        return Choice(index=int(rng.integers(1, len(scores))), explored=True)

    def probabilities(self, count: int) -> Floats:
        if count == 1:
            return np.ones(1, np.float32)
        return np.array([1 - self.epsilon, *[self.epsilon / (count - 1)] * (count - 1)], np.float32)
