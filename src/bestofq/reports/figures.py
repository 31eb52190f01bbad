"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

A figure is a whole SVG file that carries its style; `svg.inline` makes it fit for a page that has the style itself. All
texts are escaped. What only one table is drawn as stands beside that table's numbers (`costs`) or in `charts`.
"""

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.core.noun import Noun
from bestofq.reports.stats import Interval, Measure
from bestofq.reports.svg import WIDTH, Plot, axis, bar, legend, line, rate_ticks, round_step, shortened, svg, text


class CurvePoint(Noun):
    """One point of the learning curve (Best-of-Q, Fig. 4): rates in [0, 1], `low` and `high` of an interval."""

    episodes: int  # in the training set
    success: float
    low: float
    high: float
    agent: str = "Best-of-Q"
    successes: int  # successful ones among the episodes


class FailureSplit(Noun):
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
        raise InputError("a learning curve of 0 points is asked for: give at least 1")
    known = sorted(((getattr(p, by), p) for p in points), key=lambda one: one[0])
    unit = "episodes" if by == "episodes" else "successful episodes"
    ruled = axis([y for p in points for y in (p.success, p.low, p.high, baseline[1] if baseline else 0.0)])
    last = max(known[-1][0], 1)
    plot = Plot(x=(0, last), y=ruled[:2])
    ticks = [(at, f"{at:,}") for at in range(0, last + 1, round_step(last / 5))]
    parts = [*plot.rows(rate_ticks(ruled)), *plot.columns(ticks, f"{unit} in the training set")]
    if baseline is not None:
        end, level = plot.width - plot.right, plot.at_y(baseline[1])
        parts.append(line(plot.left, level, end, level, "base"))
        parts.append(text(end, level + 16, f"{baseline[0]} {100 * baseline[1]:.1f} %", "end baseline-text"))
    if len(known) > 1:
        parts.append(plot.band([(at, p.low, p.high) for at, p in known], "s0"))
    else:
        parts += [plot.whisker(at, p.low, p.high) for at, p in known]
    parts.append(plot.curve(((at, p.success) for at, p in known), "line s0"))
    for at, p in known:
        parts.append(plot.dot(at, p.success, "s0", f"{p.agent}: {100 * p.success:.1f} % after {at:,} {unit}"))
    parts += legend([("s0", points[0].agent)], left=plot.left)
    return svg(parts, plot.height, f"Learning curve: success against {unit} in the training set")


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
    """Shares as bars with their intervals `over` these as whiskers, one a row (Agent Q, Figs. 3 and 6: approaches), the
    row of the name `baseline` in grey. `references` are lines to compare with, such as human success. Names of more
    than `letters` are cut; bars begin at `left`. InputError without a row that is defined."""
    shown = [(name, measure.value, measure.interval) for name, measure in rows if measure.value is not None]
    if not shown:
        raise InputError(f"{title}: there is nothing to draw, no row has a value")
    pitch, right, top = 34, 68, 6 + (18 if references else 0)
    wide = WIDTH - left - right
    parts = []
    for number, (name, value, interval) in enumerate(shown):
        y = top + pitch * number
        parts += [text(left - 12, y + 15, shortened(name, letters), "end name"), bar(left, y, wide, 20, "track")]
        end = left + wide * value
        parts.append(bar(left, y, end - left, 20, "bar plain" if name == baseline else "bar"))
        if interval is not None:
            low, high = left + wide * interval.low, left + wide * interval.high
            parts.append(line(low, y + 10, high, y + 10, "whisker"))
            parts += [line(at, y + 6, at, y + 14, "whisker") for at in (low, high)]
        parts.append(text(WIDTH - right + 12, y + 15, f"{100 * value:.1f} %", "value"))
    height = top + pitch * len(shown) + 14
    for name, level in references:
        at = left + wide * level
        parts.append(line(at, top - 4, at, height - 20, "base"))
        parts.append(text(at, 12, f"{name} {100 * level:.1f} %", "middle baseline-text"))
    said = f"whisker: 95 % interval over {over}"
    parts.append(text(min(left, WIDTH - 6 * len(said)), height - 4, said, ""))
    return svg(parts, height, title)


def success_bars_svg(rows: Sequence[tuple[str, Measure]], baseline: str | None, *, over: str = "tasks") -> Markup:
    """Success of each agent as a bar, with its 95 % interval `over` these as a whisker; the baseline in grey."""
    letters = min(36, max(20, *(len(agent) for agent, _ in rows)))
    left = 150 + 7 * (letters - 20)
    title = "Success rate of each agent"
    return bars_svg(rows, title=title, baseline=baseline, over=over, left=left, letters=letters)


def failure_split_svg(split: FailureSplit) -> Markup:
    """Where steps go wrong, as one bar (Fig. 3). InputError when the split counts no step."""
    if split.steps == 0:
        raise InputError("a failure split of 0 steps is asked for: at least 1 step must be judged")
    named = (
        ("no good action proposed", split.not_proposed, "not-proposed"),
        ("proposed, not chosen", split.not_chosen, "not-chosen"),
        ("good action chosen", split.chosen, "good"),
    )
    parts, left = [], 0.0
    for number, (name, count, style) in enumerate(named):
        share, at = count / split.steps, number * 190
        parts += [bar(left, 4, WIDTH * share, 26, style), bar(at, 44, 10, 10, style), text(at + 16, 53, name, "")]
        parts.append(text(at + 16, 70, f"{100 * share:.1f} %  ({count:,} steps)", "value"))
        left += WIDTH * share
        if split.intervals is not None:
            bounds = split.intervals[number]
            parts.append(text(at + 16, 87, f"[{100 * bounds.low:.1f}, {100 * bounds.high:.1f}] %", ""))
    return svg(parts, 76 if split.intervals is None else 93, "Share of steps by what became of the good action")
