"""Is a Q-function worth deploying? What held-out logged choices say of it, in one line and in tables."""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError

from bestofq.core.errors import DataError
from bestofq.core.files import write_whole
from bestofq.core.frozen import FrozenModel
from bestofq.core.gate import FAMILIARITY, Held
from bestofq.core.logged import LoggedChoices
from bestofq.core.words import count_of
from bestofq.reports.gate import SHUT, GatePoint, Thresholds, calibrate, gate_policy
from bestofq.reports.off_policy import auc, first, greedy, known, local_approximation
from bestofq.reports.stats import Measure, PairedDifference

FILE = "estimate.json"  # in a Q-function's folder
LEAST_TASKS = 6  # with fewer the interval holds 0 even where all are at one end (`clopper_pearson_interval`)
Verdict = Literal["deploy", "do not deploy", "not enough episodes", "not known"]


class OffPolicyEstimate(FrozenModel):
    """What the episodes tell."""

    checkpoint: str | None  # of the Q-function it is about; None: of its settings
    episodes: int
    tasks: int
    exploring: int  # of the episodes, those that are `known`
    auc: Measure
    lift: PairedDifference | None  # what the best value gains over the first candidate; None: not known
    gate: tuple[GatePoint, ...] = ()  # thresholds that were tried
    thresholds: Thresholds = SHUT  # of the gate
    gated: PairedDifference | None = None  # what Q gains behind the gate; None: not known
    again: PairedDifference | None = None  # the same on tasks that it learned from

    @property
    def verdict(self) -> Verdict:
        if self.lift is None:
            return "not known"
        if not self.lift.clear or self.lift.tasks < LEAST_TASKS:
            return "not enough episodes"
        return "deploy" if self.lift.mean > 0 else "do not deploy"

    @property
    def more(self) -> int | None:
        """Episodes after which the interval, which narrows with their root, would leave 0 out, were the difference what
        it seems. None where it seems to be 0, or is not known."""
        if self.lift is None or self.lift.mean == 0:
            return None
        half = max(self.lift.high - self.lift.mean, self.lift.mean - self.lift.low)
        return max(0, ceil(self.exploring * ((half / self.lift.mean) ** 2 - 1)))

    @classmethod
    def read(cls, q: Path) -> Self | None:
        """That of the Q-function in a folder; None where there is none. DataError where it cannot be read."""
        if not (path := q / FILE).exists():
            return None
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise DataError(f"{path} is no estimate of this version: make it again by `bestofq estimate`") from error

    def write(self, q: Path) -> None:
        write_whole(q / FILE, self.model_dump_json(indent=1) + "\n")


def estimate(
    log: LoggedChoices, checkpoint: str | None = None, others: Mapping[Held, LoggedChoices] | None = None
) -> OffPolicyEstimate:
    """All that the estimate says; `others` are the same episodes, ranked by values with something else held out."""
    exploring = log.of(known(log)) if known(log).any() else None
    points, lift, behind, again, thresholds = list[GatePoint](), None, None, None, SHUT
    if exploring is not None:
        told = {held: other.of(known(other)) for held, other in (others or {}).items()}
        base = first(exploring)
        lift = local_approximation(exploring, greedy(exploring), base).difference
        thresholds, points = calibrate(exploring, told, LEAST_TASKS)
        behind = local_approximation(exploring, gate_policy(exploring, thresholds), base).difference
        if passes := told.get("passes"):
            again = local_approximation(passes, gate_policy(passes, thresholds), first(passes)).difference
    return OffPolicyEstimate(
        checkpoint=checkpoint,
        episodes=len(log.task),
        tasks=len(set(log.task)),
        exploring=int(known(log).sum()),
        auc=auc(log).measure,
        lift=lift,
        gate=tuple(points),
        thresholds=thresholds,
        gated=behind,
        again=again,
    )


def points(lift: PairedDifference) -> str:
    mean, low, high = (100 * max(-1.0, min(1.0, end)) for end in (lift.mean, lift.low, lift.high))  # few tasks: beyond
    return f"{mean:+.1f} points [{low:+.1f}, {high:+.1f}]"


def verdict_line(found: OffPolicyEstimate) -> str:
    """The verdict on always taking the best value, what it rests on, and how often Q ranks a success higher."""
    ranks = "" if found.auc.value is None else f"; AUC {found.auc.value:.2f}"
    if found.lift is None:
        random = "not known: no agent of these episodes chose at random among all candidates"
        return f"{random}. Logs must explore: bestofq collect --agent explore, 0 < epsilon < 1{ranks}"
    more, tasks = found.more, found.lift.tasks
    if tasks < LEAST_TASKS:
        wanted = f", of {'one task' if tasks == 1 else f'{tasks} tasks'} alone; collect more tasks"
    else:
        wanted = "" if found.verdict != "not enough episodes" or more is None else f"; about {more:,} more would tell"
    return f"{found.verdict}: expected {points(found.lift)} over the first candidate without a gate{wanted}{ranks}"


def gate_line(found: OffPolicyEstimate) -> str:
    """What the gate lets through, and what to expect of it."""
    if found.gated is None:
        return "The gate is shut: these episodes do not tell what another choice would have brought"
    opened = [f"{name!r}" for name, limit in zip(FAMILIARITY, found.thresholds, strict=True) if limit is not None]
    if not opened:
        unclear = found.more if found.verdict == "not enough episodes" else None
        more = f"; about {count_of(unclear, 'more episode')} would tell" if unclear else ""
        return f"The gate is shut, and the agent takes the first candidate: no other choice is sure to help{more}"
    once = "; no task was recorded twice, to tell of known tasks" if found.episodes == found.tasks else ""
    again = f"; where tasks come again {points(found.again)}" if found.again else once
    return f"The gate opens where {' or '.join(opened)}: expected {points(found.gated)} over the first candidate{again}"
