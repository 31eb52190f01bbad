"""When a decision may leave the proposer's first candidate: a threshold for each level of familiarity."""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bestofq.core.errors import CheckpointError
from bestofq.core.files import write_whole
from bestofq.core.frozen import FrozenModel

FILE = "gate.json"  # in a Q-function's folder
FAMILIARITY = (  # what the episodes tell of an action, by its level: how many of its memory's keys are known
    "the page is new",
    "the page is known",
    "such an action is known on the page",
    "the action is known on the page, for other goals",
    "the same step of this goal is known",
)
Held = Literal["tasks", "groups", "passes"]
"""What values did not learn from. Passes over known tasks tell only of an action that is known for its goal."""


class Gate(FrozenModel):
    """The least margin of the best candidate over the first, by the best one's familiarity. None: no margin is enough.

    `bestofq train` chooses them on held-out episodes (`reports.gate`).
    """

    checkpoint: str  # of the values that it is for
    thresholds: tuple[float | None, ...]  # [len(FAMILIARITY)]

    @classmethod
    def load(cls, folder: Path, checkpoint: str | None) -> "Gate | None":
        """Read that of the values in a folder; None if there is none of theirs. CheckpointError if it is unreadable."""
        if not (folder / FILE).exists():
            return None
        try:
            gate = cls.model_validate_json((folder / FILE).read_bytes())
        except ValidationError as error:
            raise CheckpointError(f"{folder / FILE} cannot be read: train again, or delete it") from error
        return gate if gate.checkpoint == checkpoint else None

    def save(self, folder: Path) -> None:
        write_whole(folder / FILE, self.model_dump_json())
