"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

A figure is a whole SVG file with its style; `svg.inline` removes the style for pages that have it. All texts are
escaped. The diagnostics' figures are in `charts`, that of costs in `costs`.
"""

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.core.frozen import FrozenModel
from bestofq.reports.naming import shown, tones
from bestofq.reports.stats import Interval, Measure
from bestofq.reports.svg import WIDTH, Plot, axis, figure, rate_ticks, round_step


class CurvePoint(FrozenModel):
    """One point of the learning curve (Best-of-Q, Fig. 4): rates in [0, 1], `low` and `high` of an interval."""

    episodes: int  # in the training set
    success: float
    low: float
    high: float
    agent: str = "Best-of-Q"
    successes: int  # successful ones among the episodes


class FailureSplit(FrozenModel):
    """Counts of steps (Best-of-Q, 4.5, Fig. 3), against an oracle's good actions."""

    not_proposed: int  # no good action among the candidates
    not_chosen: int  # a good one proposed, another chosen
    chosen: int  # a good one chosen
    intervals: tuple[Interval, Interval, Interval] | None = None  # of their shares over tasks, in this order

    @property
    def steps(self) -> int:
        return self.not_proposed + self.not_chosen + self.chosen


def learning_curve_svg(
    points: Sequence[CurvePoint],
    *,
    baseline: tuple[str, float] | None = None,
    by: Literal["episodes", "successes"] = "episodes",
) -> Markup:
    """Success against episodes in the training set, with a dashed line for the baseline's name and success (Fig. 4); by
    `successes` against the successful ones among them (Fig. 8, b and d). InputError without a point."""
    if not points:
        raise InputError("a learning curve needs at least 1 point")
    known = sorted(((getattr(p, by), p) for p in points), key=lambda one: one[0])
    unit = "episodes" if by == "episodes" else "successful episodes"
    ruled = axis([y for p in points for y in (p.success, p.low, p.high, baseline[1] if baseline else 0.0)])
    last = max(known[-1][0], 1)
    return figure(
        "curve",
        f"Learning curve: success against {unit} in the training set",
        plot=Plot(x=(0, last), y=ruled[:2]),
        rates=rate_ticks(ruled),
        ticks=[(at, f"{at:,}") for at in range(0, last + 1, round_step(last / 5))],
        unit=unit,
        baseline=baseline,
        known=known,
        drawn=[(at, p.success) for at, p in known],
        agent=points[0].agent,
    )


def bars_svg(
    rows: Sequence[tuple[str, Measure]],
    *,
    title: str,
    references: Sequence[tuple[str, float]] = (),
    baseline: str | None = None,
    over: str = "tasks",
    left: int = 190,
    letters: int = 28,
) -> Markup:
    """Shares as bars, one a row, with intervals `over` these as whiskers (Agent Q, Figs. 3 and 6); colours by `tones`,
    `references` are lines. Bars begin at `left`. InputError without a defined row."""
    tone = tones([name for name, _ in rows], baseline)
    drawn = [
        (shown(name), measure.value, measure.interval, tone[name])
        for name, measure in rows
        if measure.value is not None
    ]
    if not drawn:
        raise InputError(f"{title}: there is nothing to draw, no row has a value")
    pitch, top = 34, 6 + (18 if references else 0)
    sizes = {"pitch": pitch, "top": top, "left": left, "wide": WIDTH - left - 68, "letters": letters}
    height = top + pitch * len(drawn) + 14
    rest = {"references": references, "baseline": baseline, "over": over}
    return figure("bars", title, height=height, rows=drawn, **sizes, **rest)


def success_bars_svg(rows: Sequence[tuple[str, Measure]], baseline: str | None, *, over: str = "tasks") -> Markup:
    """Success of each agent as a bar, with its 95 % interval `over` these as a whisker; colours by `naming.tones`."""
    letters = min(36, max(20, *(len(shown(agent)) for agent, _ in rows)))
    left = 150 + 7 * (letters - 20)
    title = "Success rate of each agent"
    return bars_svg(rows, title=title, baseline=baseline, over=over, left=left, letters=letters)


def failure_split_svg(split: FailureSplit) -> Markup:
    """Where steps go wrong, as one bar (Fig. 3). InputError when the split counts no step."""
    if split.steps == 0:
        raise InputError("a failure split needs at least 1 step that was judged")
    before = (0, split.not_proposed, split.not_proposed + split.not_chosen)
    parts = zip(
        ("no good action proposed", "proposed, not chosen", "good action chosen"),
        ("not-proposed", "not-chosen", "good"),
        (split.not_proposed, split.not_chosen, split.chosen),
        before,
        split.intervals or (None, None, None),
        strict=True,
    )
    height = 76 if split.intervals is None else 93
    title = "Share of steps by what became of the good action"
    return figure("split", title, height=height, parts=list(parts), steps=split.steps)
