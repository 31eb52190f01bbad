"""What scores mean, by the name of the scorer that a decision records.

Neither reports nor viewer reach an agent, so the names are listed here. A name that is not here, and a decision from
before they were recorded, leave it to the numbers.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bestofq.core.decision import Decision


class Meaning(NamedTuple):
    """`values`: scores estimate the outcome, on V's scale."""

    name: str
    about: str
    values: bool


Q = Meaning("Q", "the value of taking this action on this page", True)
FEEDBACK = Meaning("feedback", "what the model that was asked thinks of this action", False)
SCORE = Meaning("score", "what the candidates are ranked by", False)
_PICK = Meaning("pick", "1 for the action that the model named best", False)
KNOWN = {
    "QScorer": Q,
    "PriorScorer": Meaning("log π + Q/β", "the proposer's log-probability and the value by β", False),
    "FeedbackScorer": FEEDBACK,
    "PickerScorer": _PICK,
    "ChatPickerScorer": _PICK,
    "VoteScorer": Meaning("votes", "how many of the proposer's replies gave this action", False),
    "VerifierScorer": Meaning("verdict", "the model's own review ends: 1 right, 0 wrong, 0.5 neither", False),
    "TreeScorer": Meaning("Q̃", "mean outcome of the rollouts through it", True),
}


def find_meaning(decisions: Iterable[Decision]) -> Meaning | None:
    """Of the scores of these decisions; None where they do not tell, or differ."""
    names = {decision.scorer for decision in decisions}
    return KNOWN.get(names.pop() or "") if len(names) == 1 else None
