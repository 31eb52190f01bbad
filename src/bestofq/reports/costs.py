"""What runs have cost by role, per task and per success (Best-of-Q, 4.4 and J): tokens, calls, seconds, USD.

A task is one finished episode. Episodes that were cut or interrupted were paid for too, and count. The cost of a
Q-function is the tokens that its embedder reads. A sum with an unknown price is unknown: its known part is shown as
`≥`, never as the whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, get_args

from markupsafe import Markup

from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Role, Usage
from bestofq.core.words import count_of
from bestofq.reports import stats
from bestofq.reports.naming import shown, tones
from bestofq.reports.rows import BASELINE, EVERYTHING, Selection
from bestofq.reports.stats import Interval, attempts_of, group_by
from bestofq.reports.svg import Plot, figure, nice_ticks, rate_ticks, shorten
from bestofq.reports.table import Table, columns
from bestofq.store.schema import Status
from bestofq.store.store import Store

ALL = "all"
LETTER, LINE = 6.5, 13  # about the width of a letter and the height of a line in a figure
_PAID: Sequence[Status] = ("finished", "cut", "interrupted")


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over episodes. `usd` adds the known prices; `unpriced` counts the tokens whose price is not known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    unpriced: int = 0

    @classmethod
    def of(cls, used: Usage) -> Self:
        unpriced = used.tokens_in + used.tokens_out if used.usd is None else 0
        return cls(used.tokens_in, used.tokens_out, used.calls, used.seconds, used.usd or 0.0, unpriced)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def dollars(self, among: int = 1) -> str:
        """USD for each of `among`, in words: `≥` if only a part has a known price."""
        if among == 0:
            return "–"
        if self.unpriced and not self.usd:
            return "unknown"
        each = self.usd / among
        return ("≥ " if self.unpriced else "") + (f"{each:,.2f}" if each >= 1 or each == 0 else f"{each:.2g}")

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, name) + getattr(other, name) for name in Spent.__slots__))

    def __mul__(self, times: int) -> "Spent":
        return Spent(*(times * getattr(self, name) for name in Spent.__slots__))


def spent_by_role(usages: Iterable[Usage]) -> dict[str, Spent]:
    """Sums by role, in order of first appearance; a last one over all (`ALL`) if there are several."""
    roles: dict[str, Spent] = defaultdict(Spent)
    for used in usages:
        roles[used.role] += Spent.of(used)
    return {**roles, ALL: sum(roles.values(), Spent())} if len(roles) > 1 else dict(roles)


class AgentCost(FrozenModel):
    run: str
    agent: str
    tasks: int  # finished episodes
    successes: int
    lost: int  # cut or interrupted: paid for, without a finished task
    roles: dict[Role, Spent]
    undecided: int = 0  # finished, but no success rate counts their outcome
    success: float | None = None  # the mean over tasks, in [0, 1]; None: no outcome tells
    interval: Interval | None = None  # of success, over tasks

    @property
    def total(self) -> Spent:
        return sum(self.roles.values(), Spent())


class Costs(FrozenModel):
    """What each agent of each run has cost."""

    rows: tuple[AgentCost, ...]

    @property
    def several_runs(self) -> bool:
        return len({row.run for row in self.rows}) > 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        lost, undecided = sum(row.lost for row in self.rows), sum(row.undecided for row in self.rows)
        notes = {
            "Tokens as the models and endpoints count them; the embedder's are what a Q-function costs.": True,
            '"unknown": no price is set (usd_in, usd_out of the endpoint). "≥": only part of the cost is known.': any(
                row.total.unpriced for row in self.rows
            ),
            f"Counted, since paid for: {count_of(lost, 'episode')} cut or interrupted.": lost,
            f"Paid for, and no success: {count_of(undecided, 'finished episode')} without a verdict.": undecided,
            "–: no success to divide by.": any(row.successes == 0 for row in self.rows),
        }
        return tuple(note for note, applies in notes.items() if applies)


def agent_costs(store: Store, selection: Selection = EVERYTHING) -> Costs:
    """Costs of the selection's agents with a finished episode, read from every step. DataError if there are none, or a
    run is not in the store. Agents have their own names, not their rows'."""
    rows: list[AgentCost] = []
    for run in (chosen := selection.in_runs(store)):
        of_run, used = replace(selection, runs=[run]), defaultdict[str, list[Usage]](list)
        paid = group_by((e for status in _PAID for e in of_run.summaries(store, status=status)), lambda e: e.agent)
        for status in _PAID:
            for episode in store.episodes(run=run, split=selection.split, status=status):
                used[episode.agent] += episode.usage
        for agent in selection.agents or paid:
            if episodes := [e for e in paid.get(agent, ()) if e.status == "finished"]:
                tries, spent = attempts_of(episodes), spent_by_role(used[agent])
                cost = AgentCost(
                    run=run,
                    agent=agent,
                    tasks=len(episodes),
                    successes=int(tries.won.sum()),
                    lost=len(paid[agent]) - len(episodes),
                    roles={role: spent[role] for role in get_args(Role) if role in spent},
                    undecided=len(episodes) - int(tries.done.sum()),
                    success=stats.success_rate(tries).mean if tries else None,
                    interval=stats.success_interval(tries) if tries else None,
                )
                rows.append(cost)
    if not rows:
        raise DataError(f"no episode is finished in {', '.join(chosen) or 'the store'}: run `bestofq eval` or `serve`")
    return Costs(rows=tuple(rows))


def cost_table(found: Costs) -> Table:
    """A row for each role of each agent, and one for the agent's total if it has several roles."""
    heads = (
        *columns("run", "agent", "role", "tokens in", "tokens out", "calls", "seconds", "USD"),
        *columns("tokens/task", "tokens/success", digits=0),
        *columns("USD/task", "USD/success"),
    )
    first = 0 if found.several_runs else 1
    cells = [
        (
            *(cost.run, cost.agent, role, spent.tokens_in, spent.tokens_out, spent.calls, spent.seconds),
            *(spent.dollars(1), spent.tokens / cost.tasks),
            spent.tokens / cost.successes if cost.successes else None,
            *(spent.dollars(cost.tasks), spent.dollars(cost.successes)),
        )
        for cost in found.rows
        for role, spent in (*cost.roles.items(), *([] if len(cost.roles) == 1 else [(ALL, cost.total)]))
    ]
    return Table.of("costs", "Costs", heads[first:], [row[first:] for row in cells], *found.notes)


class CostPoint(NamedTuple):
    """An agent in the figure of success against the cost of a task."""

    agent: str
    cost: float
    rate: float
    interval: Interval | None


def pareto_svg(costs: Costs, baseline: str | None = BASELINE) -> Markup:
    """Success against the cost of a task, with the front that nothing cheaper beats (Best-of-Q, Fig. 2): in USD if
    every price is known, else in tokens. Agents without a verdict have no point."""
    decided = [(row, row.success) for row in costs.rows if row.success is not None]
    priced = not any(row.total.unpriced for row, _ in decided)
    points = []
    for row, rate in decided:
        name = f"{row.agent} ({row.run})" if costs.several_runs else row.agent
        points.append(CostPoint(name, (row.total.usd if priced else row.total.tokens) / row.tasks, rate, row.interval))
    return points_svg(points, baseline, priced)


def points_svg(points: Sequence[CostPoint], baseline: str | None = BASELINE, priced: bool = False) -> Markup:
    """`pareto_svg` of costs in tokens, or `priced` in USD."""
    tone = tones([point.agent for point in points], baseline)
    rates = rate_ticks(point.interval.high if point.interval else point.rate for point in points)
    most = 1.15 * max((point.cost for point in points), default=0.0) or 1.0
    plot = Plot(x=(0, most), y=(0, rates[-1][0]), top=14)
    labels = [
        Label.at(plot.at_x(cost), plot.at_y(rate), shown(name), 0.7 * plot.width) for name, cost, rate, _ in points
    ]

    def amount(cost: float) -> str:
        return f"${cost:.2g}" if priced else f"{cost:,.0f}"

    return figure(
        "pareto",
        "Success against the cost of a task",
        plot=plot,
        labels=spread_labels(labels),
        rates=rates,
        ticks=[(tick, amount(tick)) for tick in nice_ticks(0, most) if tick <= most],
        unit="USD per task" if priced else "tokens per task (not every price is known)",
        points=[(point, shown(point.agent), tone[point.agent], amount(point.cost)) for point in points],
        front=[points[number][1:3] for number in pareto_front([point[1:3] for point in points])],
    )


class Label(NamedTuple):
    """A dot's name in a figure: from x to the right, or with `end` to the left."""

    x: float
    y: float
    text: str
    end: bool

    @classmethod
    def at(cls, x: float, y: float, name: str, right: float) -> Self:
        """For a dot at (x, y); to the left of dots further right than `right`."""
        end = x > right
        return cls(x - 9 if end else x + 9, y + 4, shorten(name, 30), end)

    def covers(self, other: Self) -> bool:
        (left, right), (start, stop) = self._span, other._span
        return left < stop and start < right and abs(self.y - other.y) < LINE

    @property
    def _span(self) -> tuple[float, float]:
        wide = LETTER * len(self.text)
        return (self.x - wide, self.x) if self.end else (self.x, self.x + wide)


def spread_labels(labels: Iterable[Label]) -> list[Label]:
    """Each label moved up or down until it does not cover those before it."""
    placed: list[Label] = []
    for label in labels:
        moved = (label._replace(y=label.y + sign * LINE * by) for by in range(len(placed) + 1) for sign in (1, -1))
        placed.append(next((one for one in moved if not any(map(one.covers, placed))), label))
    return placed


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (cost, success), cheapest first, that nothing as cheap or cheaper beats."""
    front: list[int] = []
    for index in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not front or points[index][1] > points[front[-1]][1]:
            front.append(index)
    return front
