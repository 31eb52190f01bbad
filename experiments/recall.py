"""Was a good action among the candidates, and was it taken (Best-of-Q, 4.5, Fig. 3)? What did the ranker lose?

A model (`experiments/golden.py`) or an oracle (`experiments/ranking.py`) says what is good.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
from markupsafe import Markup

from bestofq.reports.naming import shown
from bestofq.reports.report import Report
from bestofq.reports.stats import SIGNED, UNIT, Doubles, Interval, PairedDifference, Quantity, Span
from bestofq.reports.svg import TEMPLATES, Figure, figure
from bestofq.reports.table import Cell, RowSource, Table, columns

TEMPLATE = TEMPLATES.from_string(Path(__file__).with_name("split.jinja").read_text("utf-8"))


class Rated(Protocol):
    """A step whose candidates are rated good or not."""

    @property
    def task(self) -> Hashable: ...

    @property
    def good(self) -> Sequence[bool]: ...

    @property
    def chosen(self) -> int: ...


def rated_counts(rated: Iterable[Rated]) -> dict[Hashable, Doubles]:
    """By task [7]: rated steps, with a good action, that took one, contested; lost there by agent, first, chance."""
    tasks: dict[Hashable, Doubles] = defaultdict(lambda: np.zeros(7))
    for step in rated:
        good, held = step.good, any(step.good)
        disputed = held and not all(good)
        lost = not good[step.chosen], not good[0], 1 - sum(good) / len(good)
        tasks[step.task] += (1, held, good[step.chosen], disputed, *(disputed * part for part in lost))
    return dict(tasks)


def count_decisive_steps(rated: Iterable[Rated]) -> int:
    return sum(len({*step.good}) > 1 for step in rated)


def rated_shares(rated: Iterable[Rated]) -> dict[str, Quantity]:
    """Shares of the rated steps at which a good action was proposed (`recall`), proposed and not taken (`missed`),
    taken (`chosen`). Of the contested steps: a good one was taken (`right`) or not (`regret`); what the first candidate
    (`first`) and a uniform choice (`chance`) would have lost; the first's loss minus the agent's (`saved`)."""
    counts = rated_counts(rated)

    def divide(part: int, whole: int, minus: int | None = None, span: Span = UNIT) -> Quantity:
        parts = {task: row[part] - (0 if minus is None else row[minus]) for task, row in counts.items()}
        return Quantity({task: (parts[task], row[whole]) for task, row in counts.items()}, span)

    return {
        "recall": divide(1, 0),
        "missed": divide(1, 0, minus=2),
        "chosen": divide(2, 0),
        "right": divide(3, 3, minus=4),
        "regret": divide(4, 3),
        "first": divide(5, 3),
        "chance": divide(6, 3),
        "saved": divide(5, 3, minus=4, span=SIGNED),
    }


def subtract(ours: Quantity, theirs: Quantity) -> PairedDifference | None:
    """Ours minus theirs over the tasks of both, which keep the same drawn tasks. None as `Quantity.difference`."""
    common = [task for task in ours.counts if task in theirs.counts]
    both = {task: np.concatenate([ours.counts[task], theirs.counts[task]]) for task in common}  # [2K] each

    def difference(sums: Doubles) -> Doubles:
        first, second = np.split(sums, 2, axis=-1)
        return ours.statistic(first) - ours.statistic(second)

    span = ours.span and (ours.span[0] - ours.span[1], ours.span[1] - ours.span[0])
    return Quantity(both, span, difference).difference


def recall_table(
    rated: Mapping[str, Sequence[Rated]],
    *,
    rater: str,
    of: Mapping[str, int] | None = None,
    made: Mapping[str, RowSource] | None = None,
) -> Table:
    """A row for each agent with a rated step. `rater` says in words who rated; `of`: how many steps it has in all."""
    rows: list[tuple[Cell, ...]] = []
    for agent, steps in rated.items():
        if steps:
            recall, missed, chosen, _, *lost = (share.measure for share in rated_shares(steps).values())
            number = (of or {}).get(agent, len(steps))
            rows.append((agent, number, len(steps), recall, missed, chosen, count_decisive_steps(steps), *lost))
    return Table.of(
        "recall",
        "Candidate recall and the ranker's regret (Best-of-Q, Fig. 3)",
        columns(
            *("agent", "steps", "rated", "recall %", "good missed %", "good taken %", "contested", "regret %"),
            *("regret of the first %", "regret by chance %", "saved by ranking %"),
            signed=["saved by ranking"],
        ),
        rows,
        f"Rated by {rater}. Recall: a good action was among the candidates. 95 % bootstrap over tasks.",
        "Contested: steps that hold good and other candidates. Regret: share of them at which another was taken; "
        "saved: how much less that is than for the proposer's first candidate on the same steps.",
        made=made,
    )


def add_recall(found: Report, rated: Mapping[str, Sequence[Rated]]) -> Report:
    """The report with the table of recall, and a figure of where each agent's steps go wrong. An oracle rated."""
    agents = [agent for agent in found.made if rated.get(agent)]
    if not agents:
        return found
    of = {agent: sum(e.steps for e in found.episodes if e.agent == agent) for agent in agents}
    table = recall_table({agent: rated[agent] for agent in agents}, rater="an oracle", of=of, made=found.made)
    figures = [
        Figure(f"failures-{agent}", f"Where steps go wrong (Fig. 3): {shown(agent)}", failure_split_svg(rated[agent]))
        for agent in agents
        if count_decisive_steps(rated[agent])
    ]
    return replace(found, tables=[*found.tables, table], figures=[*found.figures, *figures])


def failure_split_svg(rated: Sequence[Rated]) -> Markup:
    """Where steps go wrong, as one bar (Fig. 3): no good action proposed, one proposed and another chosen, a good one
    chosen; with intervals of their shares. It needs a rated step."""
    steps, held, chosen, *_ = np.sum([*rated_counts(rated).values()], axis=0).astype(int).tolist()
    shares = rated_shares(rated)
    proposed, *intervals = (shares[name].measure.interval for name in ("recall", "missed", "chosen"))
    counts = steps - held, held - chosen, chosen
    parts = zip(
        ("no good action proposed", "proposed, not chosen", "good action chosen"),
        ("not-proposed", "not-chosen", "good"),
        counts,
        (0, *accumulate(counts[:-1])),
        (proposed and Interval(low=1 - proposed.high, high=1 - proposed.low), *intervals),
        strict=True,
    )
    title = "Share of steps by what became of the good action"
    return figure(TEMPLATE, title, height=93, parts=list(parts), steps=steps)
