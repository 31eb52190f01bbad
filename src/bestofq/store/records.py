"""Rows that are no core nouns: a run, and an episode without its steps."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import JsonValue

from bestofq.core.decision import TOLD, Outcome, Provenance, Usage

Status = Literal["running", "finished", "cut", "interrupted"]
"""running: steps still come; finished: has its verdict; cut: by the infrastructure; interrupted: its process died."""


class Slot(NamedTuple):
    """What is done at most once by one agent in one run."""

    suite: str
    task: str
    repeat: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One pass over a suite, with the configuration it was begun with."""

    name: str
    config: dict[str, JsonValue]
    config_hash: str
    provenance: Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeSummary:
    """An episode without its steps. `outcome` and `reward` are None until the verdict."""

    id: str
    run: str
    agent: str
    slot: Slot
    split: str
    status: Status
    outcome: Outcome | None
    reward: float | None
    reason: str
    judge: str  # who gave the verdict; empty: the environment or the rollout
    judging: tuple[Usage, ...]  # what the judge used for it
    steps: int
    seconds: float | None

    @property
    def success(self) -> bool:
        return self.outcome == "success"

    @property
    def told(self) -> bool:
        """Whether the outcome tells how the agent did (`TOLD`)."""
        return self.outcome in TOLD
