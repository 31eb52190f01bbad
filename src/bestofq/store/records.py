"""Rows that are no core nouns: a run, and an episode without its steps."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.decision import DECIDED, Outcome, Provenance
from bestofq.core.usage import Usage
from bestofq.store.schema import Status


class EpisodeKey(NamedTuple):
    """What is done at most once by one agent in one run."""

    suite: str
    task: str
    repeat: int


class RunRecord(NamedTuple):
    """One pass over a suite, with the configuration it was begun with."""

    name: str
    config: dict[str, JsonValue]
    config_hash: str
    provenance: Provenance


class FinishedEpisode(NamedTuple):
    """What statistics need of a finished episode. `decided`: its outcome tells how the agent did (`DECIDED`)."""

    id: str
    agent: str
    suite: str
    split: str
    task: str
    repeat: int
    steps: int
    started_at: str  # ISO 8601, UTC
    ended_at: str | None
    success: bool
    decided: bool


class TreeSummary(NamedTuple):
    """A search tree without its nodes."""

    run: str
    key: EpisodeKey
    rollouts: int
    saved_at: str  # ISO 8601, UTC


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeSummary:
    """An episode without its steps. `outcome` and `reward` are None until the verdict."""

    id: str
    run: str
    agent: str
    key: EpisodeKey
    split: str
    status: Status
    outcome: Outcome | None
    reward: float | None
    reason: str
    judge: str  # who gave the verdict; empty: the environment or the rollout
    judging: tuple[Usage, ...]  # what the judge used for it
    replies: tuple[str, ...] | None  # as in `Verdict`
    steps: int
    started_at: str  # ISO 8601, UTC
    seconds: float | None

    @property
    def success(self) -> bool:
        return self.outcome == "success"

    @property
    def fair_order(self) -> tuple[int, bytes]:
        """Sorts a run by passes, and a pass so that its first episodes are a fair sample of the tasks."""
        return self.key.repeat, hashlib.sha256(self.key.task.encode()).digest()

    @property
    def decided(self) -> bool:
        """Whether the outcome tells how the agent did (`DECIDED`)."""
        return self.outcome in DECIDED
