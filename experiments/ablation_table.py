"""An ablation's arms side by side: right choices on stored steps, success on held-out tasks, differences to the first
arm (Best-of-Q, Tables 4 and 10 to 12, Figs. 4 and 8)."""

from collections.abc import Sequence
from typing import Any, Protocol

from bestofq.core.frozen import FrozenModel
from bestofq.reports.figures import bars_svg
from bestofq.reports.stats import Estimate, Interval, Measure, PairedDifference, Tries, attempts_of, distinct
from bestofq.reports.success import performance
from bestofq.reports.table import Cell, Row, Table, columns
from bestofq.store.records import EpisodeSummary
from experiments.learning_curve import CurvePoint, learning_curve_svg
from experiments.recall import Rated, count_decisive_steps, rated_shares, subtract


class MeasuredArm(Protocol):
    """What became of an arm; what there is a seed of, in the seeds' order."""

    @property
    def name(self) -> str: ...
    @property
    def learned(self) -> Sequence[EpisodeSummary]: ...  # the episodes that Q learned from
    @property
    def values(self) -> Sequence[str]: ...  # names of its Q-functions. Empty: its agent has none
    @property
    def ranked(self) -> Sequence[Sequence[Rated]]: ...  # dev steps, rated, with what Q would have chosen there
    @property
    def played(self) -> Sequence[Sequence[EpisodeSummary]]: ...  # on test tasks


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
    def played(self) -> str | None:
        """Its test episodes in words."""
        return f"{self.tasks} × {self.passes}" if self.tasks else None

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
            "proposer's first %": self.first,
            "chance %": self.chance,
            "success %": self.rate,
            "± over passes %": self.success and self.success.error,
            "steps for success": self.steps_for_success and self.steps_for_success.mean,
            "difference of success %": self.difference,
            "tasks × passes": self.played,
        }


def results_of(measured: Sequence[MeasuredArm]) -> list[ArmRow]:
    """The arms' numbers; differences are to the first."""
    first = measured[0]
    return [_result(arm, None if arm is first else first) for arm in measured]


def _result(arm: MeasuredArm, first: MeasuredArm | None) -> ArmRow:
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


def _steps(arm: MeasuredArm) -> list[Rated]:
    return [step for seed in arm.ranked for step in seed]


def _attempts(arm: MeasuredArm) -> Tries:
    return attempts_of(episode for some in arm.played for episode in some)


def ablation_table(title: str, rows: Sequence[ArmRow]) -> Table:
    """A row an arm. What no arm has, or all have alike, is no column; the latter is said in the notes."""
    alike = {"proposer's first %", "chance %", "tasks × passes"} if _same_steps(rows) and _same_tasks(rows) else set()
    cells = [row.cells for row in rows]
    heads = [head for head in cells[0] if head not in alike and any(row[head] is not None for row in cells)]
    return Table(
        name="ablation",
        title=title,
        columns=columns(*heads, signed=["difference", "difference of success"]),
        rows=tuple(Row(cells=tuple(row[head] for head in heads)) for row in cells),
        notes=tuple(_notes(rows)),
    )


def _same_steps(rows: Sequence[ArmRow]) -> bool:
    return len({(row.first, row.chance, row.contested) for row in rows if row.contested}) < 2


def _same_tasks(rows: Sequence[ArmRow]) -> bool:
    return len({row.played for row in rows}) == 1


def _notes(rows: Sequence[ArmRow]) -> list[str]:
    notes = [
        "In brackets the 95 % bootstrap interval over tasks, which says nothing about other seeds; differences are to "
        "the first arm, paired by task."
    ]
    if ranked := [row for row in rows if row.contested]:
        counts = [row.contested or 0 for row in ranked]
        said = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
        notes.append(
            f"Right choice: of {said} stored dev steps that held right and wrong candidates, those at which Q ranks a "
            "right one first, by the suite's oracle; over the Q-functions of all seeds."
        )
        first, chance = ranked[0].first, ranked[0].chance
        if _same_steps(rows) and _same_tasks(rows) and first is not None and chance is not None:
            notes.append(
                f"There the proposer's first is right in {100 * first:.1f} %, a uniform choice in {100 * chance:.1f} %."
            )
    if rows[0].played:
        each = f": {rows[0].played}" if _same_tasks(rows) else ""
        notes.append(f"Success on held-out test tasks (tasks × passes{each}).")
    return notes


def ablation_pictures(title: str, rows: Sequence[ArmRow]) -> dict[str, str]:
    """By file name: bars of what was measured; a curve where arms learned from three numbers of episodes or more."""
    found: dict[str, str] = {}
    if ranked := [(row.name, row.right) for row in rows if row.right]:
        first = next(row.first for row in rows if row.right) if _same_steps(rows) else None
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
