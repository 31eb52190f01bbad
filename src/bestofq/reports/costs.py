"""What a run has cost, by role, per task and per successful task (Best-of-Q, 4.4 and J): tokens, calls, seconds, USD.

A task is one episode that came to its end. What episodes cost that were cut or interrupted is spent all the same and
counted, so that a flaky endpoint shows in the price of a task. The Q-function costs its embedder's tokens. A price that
is not known makes each sum it is part of unknown: the known part is shown as `≥`, and never stands for the whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, get_args

from markupsafe import Markup

from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Role
from bestofq.reports import stats
from bestofq.reports.naming import shown, tones
from bestofq.reports.rows import BASELINE, EVERYTHING, Selection
from bestofq.reports.spending import Prices, Spent
from bestofq.reports.stats import Interval, attempts_of, group_by
from bestofq.reports.svg import Plot, axis, figure, nice_ticks, rate_ticks, shorten
from bestofq.reports.table import Column, Row, Table
from bestofq.store.schema import Status
from bestofq.store.store import Store

LETTER, LINE = 6.5, 13  # of a name in a figure: about its width, its height
_PAID: Sequence[Status] = ("finished", "cut", "interrupted")


class AgentCost(FrozenModel):
    """One agent in one run, `total` being the sum of `roles`."""

    run: str
    agent: str
    tasks: int  # episodes that came to their end
    successes: int
    lost: int  # cut or interrupted: paid for, and no task done
    roles: dict[Role, Spent]
    undecided: int = 0  # of `tasks`, those whose outcome does not tell (`DECIDED`): in no success rate
    success: float | None = None  # of those that tell, the mean over tasks, in [0, 1]; None: none tells
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
        notes = [
            "Tokens as the models and endpoints count them; the embedder's are what a Q-function costs.",
            "With intervals over tasks: the table `spending` of `bestofq report`.",
        ]
        if any(row.total.unpriced for row in self.rows):
            notes.append(
                "unknown: no price is set (usd_in, usd_out of the endpoint); ≥: the part whose price is known."
            )
        if lost := sum(row.lost for row in self.rows):
            notes.append(f"{lost} episodes that were cut or interrupted are paid for and done by nobody: counted in.")
        if undecided := sum(row.undecided for row in self.rows):
            notes.append(f"{undecided} finished episodes have no verdict that tells: paid for, and no success as yet.")
        if any(row.successes == 0 for row in self.rows):
            notes.append("–: no success to divide by.")
        return tuple(notes)


def agent_costs(store: Store, selection: Selection = EVERYTHING, *, prices: Prices | None = None) -> Costs:
    """Costs of the selection's agents, read from every step; `prices` for what has none yet. Agents go by their own
    names, not by their rows'.

    Agents without a finished episode are left out. DataError when that leaves none, or a run is not in the store.
    """
    rows: list[AgentCost] = []
    for run in (chosen := selection.in_runs(store)):
        of_run = replace(selection, runs=[run])
        ended, *gone = (group_by(of_run.summaries(store, status=one), lambda e: e.agent) for one in _PAID)
        spent: dict[str, dict[Role, Spent]] = defaultdict(lambda: defaultdict(Spent))  # by agent
        for status in _PAID:
            for episode in store.episodes(run=run, suite=selection.suite, split=selection.split, status=status):
                for used in episode.usage:
                    spent[episode.agent][used.role] += Spent.of(used, prices)
        for agent in selection.agents or ended:
            if episodes := ended.get(agent):
                attempts = attempts_of(episodes)
                cost = AgentCost(
                    run=run,
                    agent=agent,
                    tasks=len(episodes),
                    successes=int(attempts.won.sum()),
                    lost=sum(len(some.get(agent, ())) for some in gone),
                    roles={role: spent[agent][role] for role in get_args(Role) if role in spent[agent]},
                    undecided=len(episodes) - int(attempts.done.sum()),
                    success=stats.success_rate(attempts).mean if attempts else None,
                    interval=stats.success_interval(attempts) if attempts else None,
                )
                rows.append(cost)
    if not rows:
        raise DataError(f"no episode is finished in {', '.join(chosen) or 'the store'}: run `bestofq eval` first")
    return Costs(rows=tuple(rows))


def cost_table(found: Costs) -> Table:
    """A row a role of each agent, and one for the agent's total where it has several roles."""
    heads = ("run", "agent", "role", "tokens in", "tokens out", "calls", "seconds", "USD", "tokens/task")
    names = (*heads, "tokens/success", "USD/task", "USD/success")
    first = 0 if found.several_runs else 1
    cells = [
        (
            *(cost.run, cost.agent, role, spent.tokens_in, spent.tokens_out, spent.calls, spent.seconds),
            *(spent.dollars(1), spent.tokens / cost.tasks),
            spent.tokens / cost.successes if cost.successes else None,
            *(spent.dollars(cost.tasks), spent.dollars(cost.successes)),
        )
        for cost in found.rows
        for role, spent in (*cost.roles.items(), *([] if len(cost.roles) == 1 else [("all", cost.total)]))
    ]
    return Table(
        name="costs",
        title="Costs",
        columns=tuple(Column(name=name, digits=0 if name.startswith("tokens/") else 1) for name in names[first:]),
        rows=tuple(Row(cells=row[first:]) for row in cells),
        notes=found.notes,
    )


class CostPoint(NamedTuple):
    """An agent in the figure of success against the cost of a task."""

    agent: str
    cost: float
    rate: float
    interval: Interval | None


def pareto_svg(costs: Costs, baseline: str | None = BASELINE) -> Markup:
    """Success against the cost of a task, with the front of what nothing cheaper beats (Best-of-Q, Fig. 2): in USD
    where every price is known, else in tokens. Agents without a verdict have no point."""
    decided = [(row, row.success) for row in costs.rows if row.success is not None]
    priced = all(row.total.price is not None for row, _ in decided)
    points = []
    for row, rate in decided:
        name = f"{row.agent} ({row.run})" if costs.several_runs else row.agent
        points.append(CostPoint(name, (row.total.usd if priced else row.total.tokens) / row.tasks, rate, row.interval))
    return points_svg(points, baseline, priced)


def points_svg(points: Sequence[CostPoint], baseline: str | None = BASELINE, priced: bool = False) -> Markup:
    """`pareto_svg` of costs in tokens, or `priced` in USD."""
    front = pareto_front([point[1:3] for point in points])
    tone = tones([point.agent for point in points], baseline)
    ruled = axis([0.0, *(point.interval.high if point.interval else point.rate for point in points)])
    most = 1.15 * max((point.cost for point in points), default=0.0) or 1.0
    plot = Plot(x=(0, most), y=ruled[:2], top=14)
    labels = [
        Label.beside(plot.at_x(point.cost), plot.at_y(point.rate), shown(point.agent), 0.7 * plot.width)
        for point in points
    ]
    return figure(
        "pareto",
        "Success against the cost of a task",
        plot=plot,
        labels=apart(labels),
        rates=rate_ticks(ruled),
        ticks=[(amount, _amount(amount, priced)) for amount in nice_ticks(0, most) if amount <= most],
        unit="USD per task" if priced else "tokens per task (not every price is known)",
        points=[(point, shown(point.agent), tone[point.agent], _amount(point.cost, priced)) for point in points],
        front=[points[number][1:3] for number in front],
    )


class Label(NamedTuple):
    """A dot's name on the paper: beside the dot, from x to the right, or with `end` to the left."""

    x: float
    y: float
    text: str
    end: bool

    @classmethod
    def beside(cls, x: float, y: float, name: str, right: float) -> Self:
        """To the left of dots that lie further right than that."""
        end = x > right
        return cls(x - 9 if end else x + 9, y + 4, shorten(name, 30), end)

    def covers(self, other: Self) -> bool:
        (left, right), (start, stop) = self._span, other._span
        return left < stop and start < right and abs(self.y - other.y) < LINE

    @property
    def _span(self) -> tuple[float, float]:
        wide = LETTER * len(self.text)
        return (self.x - wide, self.x) if self.end else (self.x, self.x + wide)


def apart(labels: Iterable[Label]) -> list[Label]:
    """Each moved up or down by as few lines as leave those before it uncovered."""
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


def _amount(cost: float, priced: bool) -> str:
    return f"${cost:.2g}" if priced else f"{cost:,.0f}"
