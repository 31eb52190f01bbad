"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

With `standalone` a figure is a whole SVG file that carries its style (README, docs); without, it is meant for a page
that includes `STYLE` itself. All texts are escaped.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from math import ceil, log10
from typing import Protocol

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.core.noun import Noun
from bestofq.reports.costs import AgentCost, CostTable
from bestofq.reports.stats import Estimate, Interval

STYLE = files("bestofq.reports").joinpath("templates/figure.css").read_text(encoding="utf-8")
WIDTH = 560


class CurvePoint(Noun):
    """One point of the learning curve (Best-of-Q, Fig. 4): rates in [0, 1], `low` and `high` of an interval."""

    episodes: int  # in the training set
    success: float
    low: float | None = None
    high: float | None = None
    agent: str = "Best-of-Q"


class FailureSplit(Noun):
    """Counts of steps (Best-of-Q, 4.5, Fig. 3), against an oracle's good actions."""

    not_proposed: int  # no good action among the candidates
    not_chosen: int  # a good one proposed, another chosen
    chosen: int  # a good one chosen

    @property
    def steps(self) -> int:
        return self.not_proposed + self.not_chosen + self.chosen


def learning_curve_svg(
    points: Sequence[CurvePoint],
    *,
    baseline: float | None = None,
    baseline_name: str = "Prompting",
    standalone: bool = True,
) -> Markup:
    """Success against episodes in the training set, one line an agent, with the baseline's dashed line (Fig. 4).

    InputError without a point.
    """
    if not points:
        raise InputError("a learning curve of 0 points is asked for: give at least 1")
    height, left, right, top, bottom = 300, 46, 18, 34, 40
    levels = [y for p in points for y in (p.success, p.low, p.high) if y is not None]
    floor, ceiling, gap = axis([*levels, *([] if baseline is None else [baseline])])
    last = max(max(p.episodes for p in points), 1)

    def x(episodes: int) -> float:
        return round(left + (WIDTH - left - right) * episodes / last, 1)

    def y(rate: float) -> float:
        return round(top + (height - top - bottom) * (ceiling - rate) / (ceiling - floor), 1)

    parts = []
    for tick in range(round((ceiling - floor) / gap) + 1):
        rate = floor + tick * gap
        parts.append(line(left, y(rate), WIDTH - right, y(rate), "rule"))
        parts.append(plot_text(left - 8, y(rate) + 4, f"{100 * rate:.0f} %", "end"))
    step = _round_step(last / 5)
    for episodes in range(0, last + 1, step):
        parts.append(plot_text(x(episodes), height - bottom + 18, f"{episodes:,}", "middle"))
    parts.append(plot_text((left + WIDTH - right) / 2, height - 4, "episodes in the training set", "middle"))
    if baseline is not None:
        parts.append(line(left, y(baseline), WIDTH - right, y(baseline), "base"))
        label = f"{baseline_name} {100 * baseline:.1f} %"
        parts.append(plot_text(WIDTH - right, y(baseline) + 16, label, "end baseline-text"))
    agents = list(dict.fromkeys(p.agent for p in points))
    for number, agent in enumerate(agents):
        style = f"s{number % 3}"
        mine = sorted((p for p in points if p.agent == agent), key=lambda p: p.episodes)
        banded = [(x(p.episodes), y(p.low), y(p.high)) for p in mine if p.low is not None and p.high is not None]
        if len(banded) > 1:
            outline = [(at, up) for at, _, up in banded] + [(at, down) for at, down, _ in reversed(banded)]
            parts.append(_shape("polygon", outline, f"band {style}"))
        for at, down, up in banded if len(banded) == 1 else ():
            parts.append(line(at, down, at, up, "whisker"))
        parts.append(_shape("polyline", [(x(p.episodes), y(p.success)) for p in mine], f"line {style}"))
        for p in mine:
            circle = Markup('<circle cx="{}" cy="{}" r="3.4" class="{}"><title>{}</title></circle>')
            title = f"{agent}: {100 * p.success:.1f} % after {p.episodes:,} episodes"
            parts.append(circle.format(x(p.episodes), y(p.success), style, title))
        parts.append(Markup('<circle cx="{}" cy="12" r="4" class="{}"/>').format(left + 5 + 150 * number, style))
        parts.append(plot_text(left + 14 + 150 * number, 16, agent, "name"))
    return svg(parts, height, "Learning curve: success against episodes in the training set", standalone)


class Bar(Protocol):
    """An agent's success in [0, 1], and its interval."""

    @property
    def agent(self) -> str: ...
    @property
    def success(self) -> Estimate: ...
    @property
    def interval(self) -> Interval: ...


class Bars(Protocol):
    """A table whose rows can be drawn as bars."""

    @property
    def rows(self) -> Sequence[Bar]: ...
    @property
    def baseline(self) -> str | None: ...


def success_bars_svg(table: Bars, *, standalone: bool = True) -> Markup:
    """Success of each agent as a bar, with its 95 % interval over tasks as a whisker; the baseline in grey."""
    pitch, left, right = 34, 150, 68
    wide = WIDTH - left - right
    parts = []
    for number, row in enumerate(table.rows):
        top = 6 + pitch * number
        mean, low, high = (left + wide * rate for rate in (row.success.mean, row.interval.low, row.interval.high))
        parts.append(plot_text(left - 12, top + 15, _shortened(row.agent, 20), "end name"))
        parts.append(_bar(left, top, wide, 20, "track"))
        parts.append(_bar(left, top, mean - left, 20, "bar plain" if row.agent == table.baseline else "bar"))
        parts.append(line(low, top + 10, high, top + 10, "whisker"))
        parts += [line(at, top + 6, at, top + 14, "whisker") for at in (low, high)]
        parts.append(plot_text(WIDTH - right + 12, top + 15, f"{100 * row.success.mean:.1f} %", "value"))
    height = pitch * len(table.rows) + 20
    parts.append(plot_text(left, height - 4, "whisker: 95 % interval over tasks", ""))
    return svg(parts, height, "Success rate of each agent", standalone)


def failure_split_svg(split: FailureSplit, *, standalone: bool = True) -> Markup:
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
        parts.append(_bar(left, 4, WIDTH * share, 26, style))
        left += WIDTH * share
        parts.append(_bar(number * 190, 44, 10, 10, style))
        parts.append(plot_text(number * 190 + 16, 53, name, ""))
        parts.append(plot_text(number * 190 + 16, 70, f"{100 * share:.1f} %  ({count:,} steps)", "value"))
    return svg(parts, 76, "Share of steps by what became of the good action", standalone)


def pareto_svg(costs: CostTable, *, standalone: bool = True) -> Markup:
    """Success against the cost of a task, with the front of what nothing cheaper beats (Best-of-Q, 4.4 and Fig. 2).

    The cost is in USD where every price is known, else in tokens, and the axis says so.
    """
    height, left, right, top, bottom = 300, 46, 18, 14, 40
    priced = all(row.total.price is not None for row in costs.rows)

    def cost(row: AgentCost) -> float:
        return (row.total.usd if priced else row.total.tokens) / row.tasks

    floor, ceiling, gap = axis([row.success for row in costs.rows])
    most = 1.15 * max(cost(row) for row in costs.rows) or 1.0

    def x(row: AgentCost) -> float:
        return round(left + (WIDTH - left - right) * cost(row) / most, 1)

    def y(rate: float) -> float:
        return round(top + (height - top - bottom) * (ceiling - rate) / (ceiling - floor), 1)

    parts = []
    for tick in range(round((ceiling - floor) / gap) + 1):
        rate = floor + tick * gap
        parts.append(line(left, y(rate), WIDTH - right, y(rate), "rule"))
        parts.append(plot_text(left - 8, y(rate) + 4, f"{100 * rate:.0f} %", "end"))
    for fifth in range(6):
        at = left + (WIDTH - left - right) * fifth / 5
        parts.append(plot_text(at, height - bottom + 18, _amount(most * fifth / 5, priced), "middle"))
    unit = "USD per task" if priced else "tokens per task (not every price is known)"
    parts.append(plot_text((left + WIDTH - right) / 2, height - 4, unit, "middle"))
    front = pareto_front([(cost(row), row.success) for row in costs.rows])
    parts.append(_shape("polyline", [(x(costs.rows[i]), y(costs.rows[i].success)) for i in front], "base front"))
    for number, row in enumerate(costs.rows):
        name = f"{row.agent} ({row.run})" if costs.several_runs else row.agent
        title = f"{name}: {100 * row.success:.1f} % at {_amount(cost(row), priced)} {unit}"
        parts.append(dot(x(row), y(row.success), "s1" if number in front else "s0", title))
        late = x(row) > WIDTH * 0.7
        parts.append(
            plot_text(
                x(row) + (-9 if late else 9), y(row.success) + 4, _shortened(name, 30), "end name" if late else "name"
            )
        )
    return svg(parts, height, "Success against the cost of a task", standalone)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (cost, success) that no other beats by costing no more and succeeding as often or more
    often, from cheap to dear."""
    front: list[int] = []
    for index in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not front or points[index][1] > points[front[-1]][1]:
            front.append(index)
    return front


def _amount(cost: float, priced: bool) -> str:
    return f"${cost:.2g}" if priced else f"{cost:,.0f}"


def axis(rates: Iterable[float]) -> tuple[float, float, float]:
    """Floor, ceiling and gap of the ruled lines: 0 to the first ruled line above all rates, at most 1."""
    top = max(*rates, 0.05)
    gap = 0.05 if top <= 0.25 else 0.1 if top <= 0.5 else 0.2
    return 0.0, min(1.0, ceil(round(top / gap, 6)) * gap), gap


def _round_step(about: float) -> int:
    """1, 2 or 5 times a power of ten, at least `about` and at least 1."""
    power: int = 10 ** int(log10(max(about, 1)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= about)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def plot_text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, style, text)


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(x1, y1, x2, y2, style)


def dot(x: float, y: float, style: str, title: str) -> Markup:
    circle = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5" class="{}"><title>{}</title></circle>')
    return circle.format(x, y, style, title)


def _bar(x: float, y: float, width: float, height: float, style: str) -> Markup:
    rect = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3" class="{}"/>')
    return rect.format(x, y, width, height, style)


def _shape(kind: str, points: Iterable[tuple[float, float]], style: str) -> Markup:
    path = " ".join(f"{x},{y}" for x, y in points)
    return Markup("<{0} points='{1}' class='{2}'/>").format(Markup(kind), path, style)


def svg(parts: Iterable[Markup], height: float, title: str, standalone: bool) -> Markup:
    style = Markup("<style>{}</style>").format(Markup(STYLE)) if standalone else Markup("")
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" class="figure" role="img" aria-label="{}">'
        "<title>{}</title>{}{}</svg>"
    ).format(WIDTH, height, title, title, style, Markup("").join(parts))
