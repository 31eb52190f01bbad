"""Rows that are no core nouns: a run, and an episode without its steps."""

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.decision import DECIDED, Outcome, Provenance, Verdict
from bestofq.core.errors import DamageError
from bestofq.store.schema import Status

_UNJUDGED = '{"reward":0.0,"outcome":"unjudged"}'
_verdict = lru_cache(4096)(Verdict.model_validate_json)  # most of the environment's are alike


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


class TreeSummary(NamedTuple):
    """A search tree without its nodes."""

    run: str
    suite: str
    task: str
    rollouts: int
    saved_at: str  # ISO 8601, UTC


class EpisodeSummary(NamedTuple):
    """An episode without its steps, as its row tells it. `outcome` and `verdict_json` are None until the verdict."""

    id: str
    run: str
    agent: str
    suite: str
    task: str
    repeat: int
    split: str
    status: Status
    outcome: Outcome | None
    verdict_json: str | None
    checkpoint: str | None  # the Q-function that scored its first step, once it has ended; None: none did
    started_at: str  # ISO 8601, UTC
    ended_at: str | None
    steps: int

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.suite, self.task, self.repeat)

    @property
    def verdict(self) -> Verdict:
        """Without one: `unjudged`. DamageError where it cannot be read."""
        try:
            return _verdict(self.verdict_json or _UNJUDGED)
        except ValueError as error:
            raise DamageError(
                f"the verdict of episode {self.id} is not what was written: `bestofq doctor` says what can be recovered"
            ) from error

    @property
    def reward(self) -> float | None:
        return None if self.verdict_json is None else self.verdict.reward

    @property
    def reason(self) -> str:
        return self.verdict.reason

    @property
    def judge(self) -> str:
        """Who gave the verdict; empty: the environment or the rollout."""
        return self.verdict.judge

    @property
    def seconds(self) -> float | None:
        """From its beginning to its end; None without one."""
        if self.ended_at is None:
            return None
        return (datetime.fromisoformat(self.ended_at) - datetime.fromisoformat(self.started_at)).total_seconds()

    @property
    def success(self) -> bool:
        return self.outcome == "success"

    @property
    def fair_order(self) -> tuple[int, bytes]:
        """Sorts a run by passes, and a pass so that its first episodes are a fair sample of the tasks."""
        return self.repeat, hashlib.sha256(self.task.encode()).digest()

    @property
    def decided(self) -> bool:
        """Whether the outcome tells how the agent did (`DECIDED`)."""
        return self.outcome in DECIDED
