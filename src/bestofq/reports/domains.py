"""Success by domain (Best-of-Q, Tables 5 to 8): rows are domains, columns agents."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import Field

from bestofq.core.decision import Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.usage import Usage, merge_usage
from bestofq.reports import stats
from bestofq.reports.rows import APART, EVERYTHING, Selection, read_rows
from bestofq.reports.stats import (
    Attempt,
    Estimate,
    Interval,
    Measure,
    PairedDifference,
    attempts_of,
    distinct,
    group_by,
)
from bestofq.reports.success import (
    count_judged,
    count_unfinished,
    judge_notes,
    judges_of,
    outcome_notes,
    outcome_words,
    outcomes_of,
)
from bestofq.reports.table import Row, RowSource, Table, columns
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

ALL = "all"
DIFFERENCES = (
    "Difference to {} in points on the domain's tasks that both did, paired by task; 95 % bootstrap over these tasks, "
    "each by itself: of twenty such intervals about one leaves zero out by chance."
)


class DomainCell(FrozenModel):
    """One agent on one domain; `success` is None where no outcome tells, its denominator is `counted` of `outcomes`."""

    success: Estimate | None
    tasks: int
    outcomes: dict[Outcome, int]
    interval: Interval | None = None  # of success, over the domain's tasks
    difference: PairedDifference | None = None  # to the baseline, on the domain's tasks that both did; as in `AgentRow`
    judges: dict[str, int] = Field(default_factory=dict)  # as in `AgentRow`


class DomainRow(FrozenModel):
    """A domain, or all of them together (`ALL`, the last row), with a cell an agent."""

    domain: str
    tasks: int
    cells: tuple[DomainCell, ...]


class Domains(FrozenModel):
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
        cost = []
        if (used := self.judging) is not None:
            price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
            cost = [f"Judging: {used.calls:,} calls, {used.tokens_in:,} tokens in, {used.tokens_out:,} out, {price}."]
        return (
            "Success in % ± standard error over runs; one run alone has no ±.",
            *([APART] if self.apart else []),
            *([DIFFERENCES.format(self.baseline)] if self.compared else []),
            *(f"{name}: {outcome_words(cell.outcomes)}." for name, cell in zip(self.agents, last, strict=True)),
            *outcome_notes(cell.outcomes for cell in last),
            *self.judging_notes,
            *cost,
        )

    @property
    def judging_notes(self) -> list[str]:
        """What of these numbers a judge said."""
        last = self.rows[-1].cells
        return judge_notes((cell.judges for cell in last), (cell.outcomes for cell in last))


def domain_of(task: str) -> str:
    """`Allrecipes` of the task `Allrecipes--0`, `click-tab` of `click-tab/17`; others are of no domain."""
    return task.rpartition("--")[0] or task.rpartition("/")[0] or "–"


def domain_results(store: Store, selection: Selection = EVERYTHING, *, by: Callable[[str], str] = domain_of) -> Domains:
    """Success by domain of the selection's agents (None: all, by name), over all passes together, each compared with
    its baseline; both name agents or rows, as in `agent_results`.

    `by` gives the domain of a task's id. DataError when nothing is finished, and on a baseline of several rows.
    """
    rows, finished = read_rows(store, selection)
    baseline = rows.one(selection.baseline)
    asked = selection.agents or sorted({e.agent for e in finished})
    names = distinct(name for one in asked for name in rows.of(one) or [one])
    shown = [e for e in finished if e.agent in names]
    if not shown:
        runs = ", ".join(selection.in_runs(store)) or "it"
        raise DataError(f"no episode of {', '.join(names) or 'any agent'} is finished in {runs}")
    cut = rows.name_rows(selection.summaries(store, status="cut"))

    def row(domain: str, done: Sequence[EpisodeSummary], lost: Sequence[EpisodeSummary]) -> DomainRow:
        cuts = count_unfinished(lost, done)
        by_agent = group_by(done, lambda episode: episode.agent)
        against = attempts_of(by_agent.get(baseline or "", ()))
        cells = (_cell(by_agent.get(name, ()), cuts[name], () if name == baseline else against) for name in names)
        return DomainRow(domain=domain, tasks=len({e.key[:2] for e in done if e.agent in names}), cells=tuple(cells))

    done, lost = (group_by(some, lambda e: by(e.key.task)) for some in (finished, cut))
    domains = sorted({by(e.key.task) for e in shown})
    return Domains(
        agents=names,
        rows=(*(row(one, done[one], lost.get(one, ())) for one in domains), row(ALL, finished, cut)),
        judging=next(iter(merge_usage(used for e in shown if e.judge for used in e.verdict.usage)), None),
        baseline=baseline,
        apart=any(map(rows.part_of, names)),
    )


def _cell(episodes: Sequence[EpisodeSummary], cut: int, against: Sequence[Attempt]) -> DomainCell:
    attempts = attempts_of(episodes)
    return DomainCell(
        success=stats.success_rate(attempts) if attempts else None,
        tasks=len({attempt.task for attempt in attempts}),
        interval=stats.success_interval(attempts) if attempts else None,
        difference=stats.paired_difference(attempts, against),
        outcomes=outcomes_of(episodes, cut),
        judges=judges_of(episodes),
    )


def domain_table(found: Domains, made: Mapping[str, RowSource] | None = None) -> Table:
    """Tables 6 to 8, a row a domain and agent, so that each is one number with its interval."""
    return Table(
        name="domains",
        title="Success by domain (Best-of-Q, Tables 5 to 8)",
        columns=columns(
            *("domain", "agent", "tasks", "episodes", "success %", "± over runs %"),
            *(["difference %"] if found.compared else []),
            signed=["difference"],
        ),
        rows=tuple(
            Row(
                cells=(
                    *(row.domain, agent, cell.tasks, count_judged(cell.outcomes)),
                    Measure(value=cell.success.mean if cell.success else None, interval=cell.interval),
                    cell.success.error if cell.success else None,
                    *([cell.difference] if found.compared else []),
                ),
                origin=(made or {}).get(agent),
            )
            for row in found.rows
            for agent, cell in zip(found.agents, row.cells, strict=True)
        ),
        notes=(
            "95 % bootstrap over the domain's tasks; where all came out alike, the exact bound.",
            "±: standard error over runs.",
            *([APART] if found.apart else []),
            *found.judging_notes,
            *([DIFFERENCES.format(found.baseline)] if found.compared else []),
        ),
    )


def domain_grid(found: Domains) -> Table:
    """Table 5's shape: a row a domain, a column an agent, behind them the differences to the baseline."""
    compared = found.compared
    against = [f"{found.agents[i]} − {found.baseline}" for i in compared]
    return Table(
        name="domain-grid",
        title="Success by domain",
        columns=columns("domain", "tasks", *(f"{head} %" for head in (*found.agents, *against)), signed=against),
        rows=tuple(
            Row(
                cells=(
                    row.domain,
                    row.tasks,
                    *(c.success for c in row.cells),
                    *(row.cells[i].difference for i in compared),
                )
            )
            for row in found.rows
        ),
        notes=found.notes,
    )
