"""An ablation's arms side by side: right choices on stored steps, success on held-out tasks, differences to the first
arm (Best-of-Q, Tables 4 and 10 to 12, Figs. 4 and 8)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bestofq.core.frozen import FrozenModel
from bestofq.reports.figures import bars_svg
from bestofq.reports.stats import Estimate, Interval, Measure, PairedDifference, Tries, attempts_of, distinct
from bestofq.reports.success import performance
from bestofq.reports.table import Cell, Table, columns
from bestofq.store.records import EpisodeSummary
from experiments.learning_curve import CurvePoint, learning_curve_svg
from experiments.recall import Rated, count_decisive_steps, rated_shares, subtract


@dataclass(kw_only=True)
class ArmResult:
    """What became of an arm, one entry a seed where there are several."""

    name: str
    learned: list[EpisodeSummary] = field(default_factory=list)  # the episodes that Q learned from
    values: list[str] = field(default_factory=list)  # folders in `out/q`; empty: its agent has no Q
    ranked: list[Sequence[Rated]] = field(default_factory=list)  # dev steps, as Q would have chosen there
    played: list[list[EpisodeSummary]] = field(default_factory=list)  # on test tasks


class ArmRow(FrozenModel):
    """One arm, measured. Shares lie in [0, 1], intervals are over tasks; None where it was not measured."""

    name: str
    episodes: int | None = None  # that Q learned from
    successes: int | None = None
    transitions: int | None = None
    values: tuple[str, ...]  # Q-functions, one a seed
    right: Measure | None = None  # a right candidate ranked first, of the contested dev steps: right ones and others
    right_by_seed: tuple[float | None, ...] = ()
    right_difference: PairedDifference | None = None
    first: float | None = None  # the proposer's first is right there
    chance: float | None = None  # a uniform choice is
    contested: int | None = None
    success: Estimate | None = None  # over passes
    interval: Interval | None = None
    steps_for_success: Estimate | None = None
    difference: PairedDifference | None = None
    tasks: int | None = None
    passes: int | None = None
    runs: tuple[str, ...]  # of the test episodes

    @property
    def rate(self) -> Measure | None:
        """Success with its interval."""
        return Measure(value=self.success.mean, interval=self.interval) if self.success else None

    @property
    def cells(self) -> dict[str, Cell]:
        """By the heads of `ablation_table`."""
        by_seed = ", ".join("–" if right is None else f"{100 * right:.1f}" for right in self.right_by_seed)
        return {
            "arm": self.name,
            "learned from": self.episodes,
            "right choice %": self.right,
            "by seed": by_seed or None,
            "difference %": self.right_difference,
            "contested": self.contested,
            "proposer's first %": self.first,
            "chance %": self.chance,
            "success %": self.rate,
            "± over passes %": self.success and self.success.error,
            "steps for success": self.steps_for_success and self.steps_for_success.mean,
            "difference of success %": self.difference,
            "tasks × passes": f"{self.tasks} × {self.passes}" if self.tasks else None,
        }


def results_of(measured: Sequence[ArmResult]) -> list[ArmRow]:
    """The arms' numbers; differences are to the first."""
    first = measured[0]
    return [_result(arm, None if arm is first else first) for arm in measured]


def _result(arm: ArmResult, first: ArmResult | None) -> ArmRow:
    found: dict[str, Any] = {}
    if arm.values:
        found |= {"episodes": len(arm.learned), "successes": sum(e.success for e in arm.learned)}
        found["transitions"] = sum(e.steps for e in arm.learned)
    if steps := _steps(arm):
        shares, contested = rated_shares(steps), count_decisive_steps(steps)
        lost = {name: shares[name].value for name in ("first", "chance")}
        found |= {name: None if value is None else 1 - value for name, value in lost.items()}
        found["contested"] = contested // len(arm.ranked)
        if contested:
            right = shares["right"]
            found["right"] = right.measure
            found["right_by_seed"] = [rated_shares(seed)["right"].value for seed in arm.ranked]
            found["right_difference"] = subtract(right, rated_shares(_steps(first) if first else ())["right"])
    if attempts := _attempts(arm):
        played = performance(attempts, _attempts(first) if first else None)
        found |= {name: played[name] for name in ("success", "interval", "steps_for_success", "difference", "tasks")}
        found["passes"] = played["success"].runs
    runs = distinct(episode.run for some in arm.played for episode in some)
    return ArmRow(name=arm.name, values=tuple(arm.values), runs=runs, **found)


def _steps(arm: ArmResult) -> list[Rated]:
    return [step for seed in arm.ranked for step in seed]


def _attempts(arm: ArmResult) -> Tries:
    return attempts_of(episode for some in arm.played for episode in some)


def ablation_table(title: str, rows: Sequence[ArmRow]) -> Table:
    """A row an arm. What no arm has is no column."""
    cells = [row.cells for row in rows]
    heads = [head for head in cells[0] if any(row[head] is not None for row in cells)]
    return Table.of(
        "ablation",
        title,
        columns(*heads, signed=["difference", "difference of success"]),
        [tuple(row[head] for head in heads) for row in cells],
        "In brackets the 95 % bootstrap interval over tasks, which says nothing about other seeds; differences are to "
        "the first arm, paired by task.",
        "Contested: stored dev steps that held right and wrong candidates. Right choice: those at which Q ranks a "
        "right one first, by the suite's oracle; over the Q-functions of all seeds.",
        "Success on held-out test tasks.",
    )


def ablation_pictures(title: str, rows: Sequence[ArmRow]) -> dict[str, str]:
    """By file name: bars of what was measured; a curve where arms learned from three numbers of episodes or more."""
    found: dict[str, str] = {}
    if ranked := [(row.name, row.right) for row in rows if row.right]:
        same = len({(row.first, row.chance, row.contested) for row in rows if row.contested}) == 1
        first = next(row.first for row in rows if row.right) if same else None
        references = [] if first is None else [("the proposer's first:", first)]
        found["ranking.svg"] = bars_svg(ranked, title=f"{title}: right choices", references=references)
    if played := [(row.name, row.rate) for row in rows if row.rate]:
        found["success.svg"] = bars_svg(played, title=f"{title}: success")
    points = []
    for row in rows:
        if row.episodes and row.success and (held := row.interval):
            amount = {"episodes": row.episodes, "successes": row.successes or 0}
            points.append(CurvePoint(success=row.success.mean, low=held.low, high=held.high, **amount))
    if len({point.episodes for point in points}) > 2:
        base = next(((row.name, row.success.mean) for row in rows if not row.values and row.success), None)
        found["curve.svg"] = learning_curve_svg(points, baseline=base)
    return found
