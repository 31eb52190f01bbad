"""Values over an episode's steps: V, the Q of what was taken, and of the other candidates (Best-of-Q, K, Fig. 12).

What scores mean depends on the scorer that a decision names. Neither reports nor viewer reach an agent, so the names
are listed here. For other names, and decisions from before they were recorded, the numbers decide.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bestofq.core.decision import Decision, Episode, finite


class Meaning(NamedTuple):
    """`values`: scores estimate the outcome, on V's scale."""

    name: str
    about: str
    values: bool


Q = Meaning("Q", "the value of taking this action on this page", True)
SCORE = Meaning("score", "what the candidates are ranked by", False)
_PICK = Meaning("pick", "1 for the action that the model named best", False)
KNOWN = {
    "QScorer": Q,
    "PriorScorer": Meaning("log π + Q/β", "the proposer's log-probability and the value by β", False),
    "FeedbackScorer": Meaning("feedback", "what the model that was asked thinks of this action", False),
    "PickerScorer": _PICK,
    "ChatPickerScorer": _PICK,
    "VoteScorer": Meaning("votes", "how many of the proposer's replies gave this action", False),
    "VerifierScorer": Meaning("verdict", "the model's own review ends: 1 right, 0 wrong, 0.5 neither", False),
    "TreeScorer": Meaning("Q̃", "mean outcome of the rollouts through it", True),
}


def meaning_of_scores(decisions: Iterable[Decision]) -> Meaning | None:
    """Of the scores of these decisions; None where they do not tell, or differ."""
    names = {decision.scorer for decision in decisions}
    return KNOWN.get(names.pop() or "") if len(names) == 1 else None


@dataclass(frozen=True)
class ValuedStep:
    """What was thought of a step's candidates; None where a value is no number."""

    index: int
    state_value: float | None
    taken: float | None
    others: tuple[float, ...]
    label: str
    explored: bool


def read_values(episode: Episode) -> list[ValuedStep]:
    found = []
    for index, decision in enumerate(step.decision for step in episode.steps):
        value, *scores = map(finite, (decision.state_value, *decision.scores))
        taken = scores.pop(decision.chosen)
        others = tuple(score for score in scores if score is not None)
        found.append(ValuedStep(index, value, taken, others, decision.candidate.label, decision.explored))
    return found
