"""Success by domain (Best-of-Q, Tables 5 to 8): rows are domains, columns agents."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from pydantic import Field
from rich.table import Table

from bestofq.core.decision import Outcome, Usage
from bestofq.core.errors import DataError
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.rows import APART, read_rows
from bestofq.reports.stats import Attempt, Difference, Estimate, Interval
from bestofq.reports.table import (
    attempts_of,
    counted,
    judge_notes,
    judges_of,
    never_finished,
    outcome_notes,
    outcome_words,
    pipe_row,
    plus_minus,
    points,
)
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

ALL = "all"
DIFFERENCES = (
    "Difference to {} in points on the domain's tasks that both did, paired by task; 95 % bootstrap over these tasks, "
    "each by itself: of twenty such intervals about one leaves zero out by chance."
)


class DomainCell(Noun):
    """One agent on one domain; `success` is None where no outcome tells, its denominator is `counted`."""

    success: Estimate | None
    tasks: int
    outcomes: dict[Outcome, int]
    interval: Interval | None = None  # of success, over the domain's tasks
    difference: Difference | None = None  # to the baseline, on the domain's tasks that both did; as in `AgentRow`
    judges: dict[str, int] = Field(default_factory=dict)  # as in `AgentRow`

    @property
    def counted(self) -> int:
        """The episodes that `success` is a share of."""
        return counted(self.outcomes)


class DomainRow(Noun):
    """A domain, or all of them together (`ALL`, the last row), with a cell an agent."""

    domain: str
    tasks: int
    cells: tuple[DomainCell, ...]


class DomainTable(Noun):
    """Success by domain of some runs."""

    agents: tuple[str, ...]
    rows: tuple[DomainRow, ...]
    judging: Usage | None  # of all judges together, for the verdicts in force; None: no judge was asked
    baseline: str | None = None
    apart: bool = False  # whether a column holds only some of its agent's runs

    @property
    def compared(self) -> tuple[int, ...]:
        """Which of `agents` have differences."""
        return tuple(i for i, agent in enumerate(self.agents) if self.baseline not in (None, agent))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        last = self.rows[-1].cells
        counts = [f"{agent}: {outcome_words(cell.outcomes)}." for agent, cell in zip(self.agents, last, strict=True)]
        cost = []
        if (used := self.judging) is not None:
            price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
            cost = [f"Judging: {used.calls:,} calls, {used.tokens_in:,} tokens in, {used.tokens_out:,} out, {price}."]
        return (
            "Success in % ± standard error over runs, of n episodes; one run alone has no ±.",
            *([APART] if self.apart else []),
            *([DIFFERENCES.format(self.baseline)] if self.compared else []),
            *counts,
            *outcome_notes(cell.outcomes for cell in last),
            *self.judging_notes,
            *cost,
        )

    @property
    def judging_notes(self) -> list[str]:
        """What of these numbers a judge said."""
        last = self.rows[-1].cells
        return judge_notes((cell.judges for cell in last), sum(cell.counted for cell in last))

    def row(self, domain: str) -> DomainRow:
        """DataError when there is no such domain."""
        for row in self.rows:
            if row.domain == domain:
                return row
        raise DataError(f"there is no domain {domain!r} in the table: it has {', '.join(r.domain for r in self.rows)}")

    def to_rich(self, title: str | None = None) -> Table:
        """For the terminal."""
        table = Table(title=title, caption="\n".join(self.notes), caption_justify="left")
        table.add_column("domain")
        table.add_column("tasks", justify="right")
        for head in self._heads:
            table.add_column(head.replace("[", r"\["), justify="right")
        for row in self.rows:
            if row.domain == ALL:
                table.add_section()
            table.add_row(*(text.replace("[", r"\[") for text in (row.domain, str(row.tasks), *self._texts(row))))
        return table

    def to_markdown(self) -> str:
        """A GitHub table, its notes below; ends with a line break."""
        heads = ["domain", "tasks", *self._heads]
        lines = [pipe_row(heads), pipe_row(["---", *["--:"] * (len(heads) - 1)])]
        lines += [pipe_row([row.domain, str(row.tasks), *self._texts(row)]) for row in self.rows]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]) + "\n"

    def to_json(self) -> str:
        """Everything, unrounded; `DomainTable.model_validate_json` reads it back."""
        return self.model_dump_json(indent=2)

    @property
    def _heads(self) -> list[str]:
        return [*self.agents, *(f"{self.agents[i]} − {self.baseline}" for i in self.compared)]

    def _texts(self, row: DomainRow) -> list[str]:
        return [*map(_words, row.cells), *(points(row.cells[i].difference) for i in self.compared)]


def domain_of(task: str) -> str:
    """`Allrecipes` of the task `Allrecipes--0`, `click-tab` of `click-tab/17`; others are of no domain."""
    return task.rpartition("--")[0] or task.rpartition("/")[0] or "–"


def domain_table(
    store: Store,
    *,
    runs: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    suite: str | None = None,
    split: str | None = None,
    baseline: str | None = None,
    by: Callable[[str], str] = domain_of,
) -> DomainTable:
    """Success by domain of `agents` (None: all, by name) in `runs` (None: all), over all passes together, each compared
    with `baseline`; both name agents or rows, as in `result_table`.

    `by` gives the domain of a task's id. DataError when nothing is finished, and on a baseline of several rows.
    """
    chosen = [run.name for run in store.runs()] if runs is None else list(dict.fromkeys(runs))
    rows, finished = read_rows(store, runs=chosen, suite=suite, split=split)
    baseline = None if baseline is None else rows.one(baseline)
    asked = agents or sorted({e.agent for e in finished})
    names = tuple(dict.fromkeys(name for one in asked for name in rows.of(one) or [one]))
    if not any(e.agent in names for e in finished):
        raise DataError(f"no episode of {', '.join(names) or 'any agent'} is finished in {', '.join(chosen) or 'it'}")
    cut = rows.named(e for run in chosen for e in store.summaries(run=run, suite=suite, split=split, status="cut"))

    def row(domain: str | None) -> DomainRow:
        def here(episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
            return [e for e in episodes if domain is None or by(e.slot.task) == domain]

        done = here(finished)
        cuts = never_finished(here(cut), done)
        against = attempts_of(e for e in done if e.agent == baseline)
        cells = tuple(
            _cell([e for e in done if e.agent == name], cuts[name], () if name == baseline else against)
            for name in names
        )
        tasks = len({e.slot[:2] for e in done if e.agent in names})
        return DomainRow(domain=ALL if domain is None else domain, tasks=tasks, cells=cells)

    domains = sorted({by(e.slot.task) for e in finished if e.agent in names})
    judging = _total([used for e in finished if e.agent in names for used in e.judging])
    found = tuple(row(domain) for domain in (*domains, None))
    apart = any(map(rows.part_of, names))
    return DomainTable(agents=names, rows=found, judging=judging, baseline=baseline, apart=apart)


def _total(usages: Sequence[Usage]) -> Usage | None:
    """Their sum; its price is unknown as soon as one of theirs is."""
    if not usages:
        return None
    prices = [used.usd for used in usages if used.usd is not None]
    return Usage(
        role="judge",
        tokens_in=sum(used.tokens_in for used in usages),
        tokens_out=sum(used.tokens_out for used in usages),
        calls=sum(used.calls for used in usages),
        seconds=sum(used.seconds for used in usages),
        usd=sum(prices) if len(prices) == len(usages) else None,
    )


def _cell(episodes: Sequence[EpisodeSummary], cut: int, against: Sequence[Attempt]) -> DomainCell:
    attempts = attempts_of(episodes)
    outcomes: Mapping[Outcome | None, int] = Counter(episode.outcome for episode in episodes)
    found = {name: cut if name == "infra_error" else outcomes.get(name, 0) for name in get_args(Outcome)}
    return DomainCell(
        success=stats.success_rate(attempts) if attempts else None,
        tasks=len({attempt.task for attempt in attempts}),
        interval=stats.success_interval(attempts) if attempts else None,
        difference=stats.paired_difference(attempts, against),
        outcomes={name: count for name, count in found.items() if count},
        judges=judges_of(episodes),
    )


def _words(cell: DomainCell) -> str:
    return "–" if cell.success is None else f"{plus_minus(cell.success, scale=100)}  n={cell.counted}"
