"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

A figure is a whole SVG file that carries its style; `svg.inline` makes it fit for a page that has the style itself. All
texts are escaped. What only one table is drawn as stands beside that table's numbers (`costs`) or in `charts`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.core.noun import Noun
from bestofq.reports.stats import Estimate, Interval, Measure
from bestofq.reports.svg import (
    WIDTH,
    Plot,
    axis,
    bar,
    legend,
    line,
    rate_ticks,
    round_step,
    shape,
    shortened,
    svg,
    text,
)


class CurvePoint(Noun):
    """One point of the learning curve (Best-of-Q, Fig. 4): rates in [0, 1], `low` and `high` of an interval."""

    episodes: int  # in the training set
    success: float
    low: float | None = None
    high: float | None = None
    agent: str = "Best-of-Q"
    successes: int | None = None  # successful ones among the episodes


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
    baseline: float | None = None,
    baseline_name: str = "Prompting",
    by: Literal["episodes", "successes"] = "episodes",
) -> Markup:
    """Success against episodes in the training set, one line an agent, with the baseline's dashed line (Fig. 4); by
    `successes` against the successful ones among them (Fig. 8, b and d).

    InputError without a point, or where a point's successes are asked for and not known.
    """
    if not points:
        raise InputError("a learning curve of 0 points is asked for: give at least 1")
    if by == "successes" and any(p.successes is None for p in points):
        raise InputError(
            "a learning curve by successes is asked for, and a point does not say how many it learned from"
        )

    def amount(p: CurvePoint) -> int:
        return p.episodes if by == "episodes" else p.successes or 0

    unit = "episodes" if by == "episodes" else "successful episodes"
    levels = [y for p in points for y in (p.success, p.low, p.high) if y is not None]
    ruled = axis([*levels, *([] if baseline is None else [baseline])])
    last = max(*map(amount, points), 1)
    plot = Plot(x=(0, last), y=ruled[:2])
    ticks = [(at, f"{at:,}") for at in range(0, last + 1, round_step(last / 5))]
    parts = [*plot.rows(rate_ticks(ruled)), *plot.columns(ticks, f"{unit} in the training set")]
    if baseline is not None:
        end, level = plot.width - plot.right, plot.at_y(baseline)
        parts.append(line(plot.left, level, end, level, "base"))
        parts.append(text(end, level + 16, f"{baseline_name} {100 * baseline:.1f} %", "end baseline-text"))
    for number, agent in enumerate(dict.fromkeys(p.agent for p in points)):
        style = f"s{number % 3}"
        mine = sorted((p for p in points if p.agent == agent), key=amount)
        low = plot.points((amount(p), p.low) for p in mine if p.low is not None and p.high is not None)
        high = plot.points((amount(p), p.high) for p in mine if p.low is not None and p.high is not None)
        if len(low) > 1:
            parts.append(shape("polygon", [*high, *reversed(low)], f"band {style}"))
        elif low:
            parts.append(line(*low[0], *high[0], "whisker"))
        parts.append(plot.curve(((amount(p), p.success) for p in mine), f"line {style}"))
        for p in mine:
            title = f"{agent}: {100 * p.success:.1f} % after {amount(p):,} {unit}"
            parts.append(plot.dot(amount(p), p.success, style, title))
        parts += legend([(style, agent)], left=plot.left + 150 * number)
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


class Bar(Protocol):
    """An agent's success in [0, 1], and its interval."""

    @property
    def agent(self) -> str: ...
    @property
    def success(self) -> Estimate: ...
    @property
    def interval(self) -> Interval: ...


def success_bars_svg(rows: Sequence[Bar], baseline: str | None, *, over: str = "tasks") -> Markup:
    """Success of each row's agent as a bar, with its 95 % interval `over` these as a whisker; the baseline in grey."""
    letters = min(36, max(20, *(len(row.agent) for row in rows)))
    return bars_svg(
        [(row.agent, Measure(value=row.success.mean, interval=row.interval)) for row in rows],
        title="Success rate of each agent",
        baseline=baseline,
        over=over,
        left=150 + 7 * (letters - 20),
        letters=letters,
    )


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
        share = count / split.steps
        parts.append(bar(left, 4, WIDTH * share, 26, style))
        left += WIDTH * share
        parts.append(bar(number * 190, 44, 10, 10, style))
        parts.append(text(number * 190 + 16, 53, name, ""))
        parts.append(text(number * 190 + 16, 70, f"{100 * share:.1f} %  ({count:,} steps)", "value"))
        if split.intervals is not None:
            bounds = split.intervals[number]
            parts.append(text(number * 190 + 16, 87, f"[{100 * bounds.low:.1f}, {100 * bounds.high:.1f}] %", ""))
    return svg(parts, 76 if split.intervals is None else 93, "Share of steps by what became of the good action")
