"""Is a Q-function worth deploying? What held-out logged choices say of it, in one line and in tables."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import ValidationError

from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.gate import FAMILIARITY
from bestofq.core.logged import LoggedChoices
from bestofq.reports.calibration import calibration
from bestofq.reports.gate import GatePoint, choose_thresholds, gate_points, gated
from bestofq.reports.off_policy import auc, first, greedy, known, local_approximation, to_valued_steps
from bestofq.reports.stats import UNIT, Measure, PairedDifference, Quantity, tally_by_task
from bestofq.reports.table import Cell, Table, columns

FILE = "estimate.json"
"""In a Q-function's folder."""
LEAST_TASKS = 6  # with fewer the interval holds 0 even where all are at one end (`clopper_pearson_interval`)
Verdict = Literal["deploy", "do not deploy", "not enough episodes", "not known"]


class AtN(FrozenModel):
    """What Q gains by choosing among the first `n` candidates, over the first of them (`local_approximation`)."""

    n: int
    lift: PairedDifference | None  # None: undefined


class OffPolicyEstimate(FrozenModel):
    """What the episodes tell. `choices` is empty where no agent that gave each candidate a chance played them."""

    checkpoint: str | None  # of the Q-function it is about; None: of its settings
    episodes: int
    tasks: int
    exploring: int  # of the episodes, those that are `known`
    auc: Measure
    siblings: Measure  # of pairs of actions on one page of one task, one of a success and one of a failure
    pairs: int
    choices: tuple[AtN, ...]
    gate: tuple[GatePoint, ...] = ()  # thresholds that were tried
    gated: PairedDifference | None = None  # what Q gains behind the gate; None: not known
    tokens: float  # an episode, as logged
    usd: float | None  # None: a price is not known

    @property
    def lift(self) -> PairedDifference | None:
        return self.choices[-1].lift if self.choices else None

    @property
    def thresholds(self) -> tuple[float | None, ...]:
        """Of the gate, by familiarity."""
        return choose_thresholds(self.gate, LEAST_TASKS)

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
        if not (q / FILE).exists():
            return None
        try:
            return cls.model_validate_json((q / FILE).read_bytes())
        except ValidationError as error:
            raise DataError(
                f"{q / FILE} is no estimate of this version: make it again by `bestofq estimate`"
            ) from error

    def write(self, q: Path) -> None:
        (q / FILE).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


def estimate(
    log: LoggedChoices, siblings: Sequence[tuple[object, float, float]], checkpoint: str | None = None
) -> OffPolicyEstimate:
    """All that the estimate says. `siblings`: of each task the pairs ranked right, and all."""
    ranked = Quantity(tally_by_task((str(task), right, pairs) for task, right, pairs in siblings), UNIT)
    exploring = log.of(known(log)) if known(log).any() else None
    choices: list[AtN] = []
    points: list[GatePoint] = []
    behind = None
    if exploring is not None:
        base = first(exploring)
        for n in range(2, log.q.shape[1] + 1):
            lift = local_approximation(exploring, greedy(exploring, n), base).difference
            choices.append(AtN(n=n, lift=lift))
        points = gate_points(exploring)
        pi = gated(exploring, choose_thresholds(points, LEAST_TASKS))
        behind = local_approximation(exploring, pi, base).difference
    usd = float(log.usd.mean())
    return OffPolicyEstimate(
        checkpoint=checkpoint,
        episodes=len(log.task),
        tasks=len(set(log.task)),
        exploring=int(known(log).sum()),
        auc=auc(log).measure,
        siblings=ranked.measure,
        pairs=round(sum(pairs for _, _, pairs in siblings)),
        choices=tuple(choices),
        gate=tuple(points),
        gated=behind,
        tokens=float(log.tokens.mean()),
        usd=None if np.isnan(usd) else usd,
    )


def points(lift: PairedDifference) -> str:
    return f"{100 * lift.mean:+.1f} points [{100 * lift.low:+.1f}, {100 * lift.high:+.1f}]"


def short(found: OffPolicyEstimate) -> str:
    """What `bestofq train` prints."""
    value, bounds = found.auc.value, found.auc.interval
    if value is None:
        return "no held-out success and failure to rank"
    between = f" [{bounds.low:.2f}, {bounds.high:.2f}]" if bounds else ""
    lift = "what it gains is not known" if found.lift is None else f"expected {points(found.lift)}"
    return f"ranks held-out successes above failures with AUC {value:.2f}{between}; {lift}"


def verdict_line(found: OffPolicyEstimate) -> str:
    if found.lift is None:
        return (
            "not known: in these episodes no agent chose at random among all recorded candidates, so nothing tells "
            "what another choice would have brought. Logs must explore: bestofq collect --agent explore, "
            "0 < epsilon < 1"
        )
    more, tasks = found.more, found.lift.tasks
    if tasks < LEAST_TASKS:
        wanted = f", of {'one task' if tasks == 1 else f'{tasks} tasks'} alone; collect more tasks"
    else:
        wanted = "" if found.verdict != "not enough episodes" or more is None else f"; about {more:,} more would tell"
    return f"{found.verdict}: expected {points(found.lift)} over the first candidate{wanted}"


def gate_line(found: OffPolicyEstimate) -> str:
    """What the gate lets through, and what to expect of it."""
    if found.gated is None:
        return "The gate is shut: these episodes do not tell what another choice would have brought"
    opened = [f"{name!r}" for name, limit in zip(FAMILIARITY, found.thresholds, strict=True) if limit is not None]
    if not opened:
        more = f"; about {found.more:,} more episodes would tell" if found.more else ""
        return f"The gate is shut, and the agent takes the first candidate: no other choice is shown to help{more}"
    return f"The gate opens where {' or '.join(opened)}: expected {points(found.gated)} over the first candidate"


def choice_table(found: OffPolicyEstimate) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for at in found.choices:
        gain = at.lift.mean if at.lift and at.lift.mean > 0 else None
        usd = None if gain is None or found.usd is None else found.usd / gain
        rows.append((at.n, at.lift, gain and found.tokens / gain, usd))
    return Table.of(
        "estimate",
        "Expected difference to the first candidate, by candidates to choose among",
        (
            *columns("candidates", "difference %", signed=["difference"]),
            *columns("tokens/extra success", digits=0),
            *columns("USD/extra success", digits=None),
        ),
        rows,
        f"From {found.exploring:,} exploring episodes that Q did not learn from; 95 % bootstrap over tasks.",
        "Same proposer, other choice: what each choice alone would change, added up. A large difference is larger when "
        "it is played.",
        "Per extra success at most: all tokens of a logged episode, the first candidate's too, not what Q reads.",
    )


def rank_table(log: LoggedChoices, found: OffPolicyEstimate, discount: float) -> Table:
    steps = to_valued_steps(log, discount)
    calibrated = calibration(steps, "", discount=discount)
    mean = Quantity(tally_by_task((step.task, step.q, 1.0) for step in steps)).measure
    outcome = Quantity(tally_by_task((step.task, step.outcome, 1.0) for step in steps)).measure
    ranked = "–" if found.siblings.value is None else f"{100 * found.siblings.value:.1f} %"
    return Table.of(
        "estimate-ranks",
        "How Q ranks held-out steps",
        columns("steps", "AUC", "mean Q", "outcome", "ECE", "bias", digits=3),
        [(len(steps), found.auc, mean, outcome, calibrated.ece, calibrated.bias)],
        f"AUC: successes' steps above failures'. Of {found.pairs:,} pairs of actions on one page of one task {ranked} "
        "are ranked as they ended.",
        f"Outcome: discount^(steps left) · success, discount {discount:g}. The episodes explore, so a Q that is right "
        "for the ranked agent lies above it.",
    )
