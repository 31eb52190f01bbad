"""Figures as SVG text, without a plotting library: light and dark, sharp at any size, a few kB each.

With `standalone` a figure is a whole SVG file that carries its style (README, docs); without, it is meant for a page
that includes `STYLE` itself. All texts are escaped.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from markupsafe import Markup

from bestofq.core.errors import InputError
from bestofq.core.noun import Noun
from bestofq.reports.costs import AgentCost, Costs
from bestofq.reports.stats import Estimate, Interval
from bestofq.reports.svg import WIDTH, axis, bar, line, nice_ticks, round_step, shape, shortened, svg, text


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
    standalone: bool = True,
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
    height, left, right, top, bottom = 300, 46, 18, 34, 40
    levels = [y for p in points for y in (p.success, p.low, p.high) if y is not None]
    floor, ceiling, gap = axis([*levels, *([] if baseline is None else [baseline])])
    last = max(*map(amount, points), 1)

    def x(episodes: int) -> float:
        return round(left + (WIDTH - left - right) * episodes / last, 1)

    def y(rate: float) -> float:
        return round(top + (height - top - bottom) * (ceiling - rate) / (ceiling - floor), 1)

    parts = []
    for tick in range(round((ceiling - floor) / gap) + 1):
        rate = floor + tick * gap
        parts.append(line(left, y(rate), WIDTH - right, y(rate), "rule"))
        parts.append(text(left - 8, y(rate) + 4, f"{100 * rate:.0f} %", "end"))
    step = round_step(last / 5)
    for episodes in range(0, last + 1, step):
        parts.append(text(x(episodes), height - bottom + 18, f"{episodes:,}", "middle"))
    parts.append(text((left + WIDTH - right) / 2, height - 4, f"{unit} in the training set", "middle"))
    if baseline is not None:
        parts.append(line(left, y(baseline), WIDTH - right, y(baseline), "base"))
        label = f"{baseline_name} {100 * baseline:.1f} %"
        parts.append(text(WIDTH - right, y(baseline) + 16, label, "end baseline-text"))
    agents = list(dict.fromkeys(p.agent for p in points))
    for number, agent in enumerate(agents):
        style = f"s{number % 3}"
        mine = sorted((p for p in points if p.agent == agent), key=amount)
        banded = [(x(amount(p)), y(p.low), y(p.high)) for p in mine if p.low is not None and p.high is not None]
        if len(banded) > 1:
            outline = [(at, up) for at, _, up in banded] + [(at, down) for at, down, _ in reversed(banded)]
            parts.append(shape("polygon", outline, f"band {style}"))
        for at, down, up in banded if len(banded) == 1 else ():
            parts.append(line(at, down, at, up, "whisker"))
        parts.append(shape("polyline", [(x(amount(p)), y(p.success)) for p in mine], f"line {style}"))
        for p in mine:
            circle = Markup('<circle cx="{}" cy="{}" r="3.4" class="{}"><title>{}</title></circle>')
            title = f"{agent}: {100 * p.success:.1f} % after {amount(p):,} {unit}"
            parts.append(circle.format(x(amount(p)), y(p.success), style, title))
        parts.append(Markup('<circle cx="{}" cy="12" r="4" class="{}"/>').format(left + 5 + 150 * number, style))
        parts.append(text(left + 14 + 150 * number, 16, agent, "name"))
    return svg(parts, height, f"Learning curve: success against {unit} in the training set", standalone)


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


def success_bars_svg(table: Bars, *, over: str = "tasks", standalone: bool = True) -> Markup:
    """Success of each agent as a bar, with its 95 % interval `over` these as a whisker; the baseline in grey."""
    letters = min(36, max(20, *(len(row.agent) for row in table.rows)))  # of a name
    pitch, left, right = 34, 150 + 7 * (letters - 20), 68
    wide = WIDTH - left - right
    parts = []
    for number, row in enumerate(table.rows):
        top = 6 + pitch * number
        mean, low, high = (left + wide * rate for rate in (row.success.mean, row.interval.low, row.interval.high))
        parts.append(text(left - 12, top + 15, shortened(row.agent, letters), "end name"))
        parts.append(bar(left, top, wide, 20, "track"))
        parts.append(bar(left, top, mean - left, 20, "bar plain" if row.agent == table.baseline else "bar"))
        parts.append(line(low, top + 10, high, top + 10, "whisker"))
        parts += [line(at, top + 6, at, top + 14, "whisker") for at in (low, high)]
        parts.append(text(WIDTH - right + 12, top + 15, f"{100 * row.success.mean:.1f} %", "value"))
    height = pitch * len(table.rows) + 20
    said = f"whisker: 95 % interval over {over}"
    parts.append(text(min(left, WIDTH - 6 * len(said)), height - 4, said, ""))
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
        parts.append(bar(left, 4, WIDTH * share, 26, style))
        left += WIDTH * share
        parts.append(bar(number * 190, 44, 10, 10, style))
        parts.append(text(number * 190 + 16, 53, name, ""))
        parts.append(text(number * 190 + 16, 70, f"{100 * share:.1f} %  ({count:,} steps)", "value"))
        if split.intervals is not None:
            bounds = split.intervals[number]
            parts.append(text(number * 190 + 16, 87, f"[{100 * bounds.low:.1f}, {100 * bounds.high:.1f}] %", ""))
    return svg(
        parts, 76 if split.intervals is None else 93, "Share of steps by what became of the good action", standalone
    )


def pareto_svg(costs: Costs, *, standalone: bool = True) -> Markup:
    """Success against the cost of a task, with the front of what nothing cheaper beats (Best-of-Q, 4.4 and Fig. 2).

    The cost is in USD where every price is known, else in tokens, and the axis says so. Of agents of which no verdict
    tells there is no point.
    """
    height, left, right, top, bottom = 300, 46, 18, 14, 40
    told = [(row, row.success) for row in costs.rows if row.success is not None]
    priced = all(row.total.price is not None for row, _ in told)

    def cost(row: AgentCost) -> float:
        return (row.total.usd if priced else row.total.tokens) / row.tasks

    floor, ceiling, gap = axis([0.0, *(row.interval.high if row.interval else rate for row, rate in told)])
    most = 1.15 * max((cost(row) for row, _ in told), default=0.0) or 1.0

    def x(row: AgentCost) -> float:
        return round(left + (WIDTH - left - right) * cost(row) / most, 1)

    def y(rate: float) -> float:
        return round(top + (height - top - bottom) * (ceiling - rate) / (ceiling - floor), 1)

    parts = []
    for tick in range(round((ceiling - floor) / gap) + 1):
        rate = floor + tick * gap
        parts.append(line(left, y(rate), WIDTH - right, y(rate), "rule"))
        parts.append(text(left - 8, y(rate) + 4, f"{100 * rate:.0f} %", "end"))
    for amount in nice_ticks(0, most):
        at = left + (WIDTH - left - right) * amount / most
        if amount <= most:
            parts.append(text(at, height - bottom + 18, _amount(amount, priced), "middle"))
    unit = "USD per task" if priced else "tokens per task (not every price is known)"
    parts.append(text((left + WIDTH - right) / 2, height - 4, unit, "middle"))
    for row, _ in told:
        if row.interval is not None:
            parts.append(line(x(row), y(row.interval.low), x(row), y(row.interval.high), "whisker faint"))
    front = pareto_front([(cost(row), rate) for row, rate in told])
    parts.append(shape("polyline", [(x(told[i][0]), y(told[i][1])) for i in front], "base front"))
    for number, (row, rate) in enumerate(told):
        name = f"{row.agent} ({row.run})" if costs.several_runs else row.agent
        circle = Markup('<circle cx="{}" cy="{}" r="4.5" class="{}"><title>{}</title></circle>')
        title = f"{name}: {100 * rate:.1f} % at {_amount(cost(row), priced)} {unit}"
        parts.append(circle.format(x(row), y(rate), "s1" if number in front else "s0", title))
        late = x(row) > WIDTH * 0.7
        parts.append(
            text(x(row) + (-9 if late else 9), y(rate) + 4, shortened(name, 30), "end name" if late else "name")
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
