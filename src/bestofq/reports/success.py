"""Success and steps of each agent (Best-of-Q, Table 2)."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import Field

from bestofq.core.decision import Outcome
from bestofq.core.errors import DataError
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.outcomes import (
    counted,
    judge_notes,
    judges_of,
    never_finished,
    outcome_notes,
    outcome_words,
    outcomes_of,
)
from bestofq.reports.rows import APART, EVERYTHING, Selection, read_rows
from bestofq.reports.stats import Difference, Estimate, Interval, Measure, attempts_of, grouped
from bestofq.reports.table import Cell, Origin, Row, Table, columns
from bestofq.store.store import Store


class AgentRow(Noun):
    """One agent's results. Rates lie in [0, 1]; a run is one (run, repeat) of the store."""

    agent: str
    success: Estimate
    interval: Interval  # of success, over other tasks
    steps_for_success: Estimate | None
    steps_interval: Interval | None = None  # of steps_for_success, over other tasks
    episodes: int
    tasks: int
    runs: int
    identical_runs: bool
    task_variance: float | None
    difference: Difference | None  # None: the baseline itself, or no baseline, or no task in common
    outcomes: dict[Outcome, int]  # as `outcomes_of`; `success` is a share of DECIDED's alone
    judges: dict[str, int] = Field(default_factory=dict)  # verdicts of DECIDED that a judge gave, by its name

    @property
    def counted(self) -> int:
        """The denominator of `success`: episodes whose outcome tells how the agent did."""
        return counted(self.outcomes)


class Source(Noun):
    """A run of the store that the table reads, and what made it."""

    run: str
    config_hash: str
    version: str
    commit: str | None


class Results(Noun):
    """All agents' results, and the runs they come from."""

    rows: tuple[AgentRow, ...]
    baseline: str | None
    sources: tuple[Source, ...]
    apart: bool = False  # whether a row holds only some of its agent's runs

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        notes = ["±: standard error over runs; it says nothing about other tasks."]
        if self.apart:
            notes.append(APART)
        if self.baseline is not None:
            notes.append(
                f"Difference to {self.baseline} in points, paired by task; 95 % bootstrap over tasks "
                f"({stats.RESAMPLES:,} resamples)."
            )
        if same := [row.agent for row in self.rows if row.identical_runs]:
            notes.append(f"Runs identical step for step, so ± is 0: {', '.join(same)}.")
        if single := [row.agent for row in self.rows if row.runs == 1]:
            notes.append(f"One run only, so no ±: {', '.join(single)}.")
        notes += outcome_notes(row.outcomes for row in self.rows)
        notes += judge_notes((row.judges for row in self.rows), sum(row.counted for row in self.rows))
        return tuple(notes)


def agent_results(store: Store, selection: Selection = EVERYTHING) -> Results:
    """The results of the selection's agents, each compared with its baseline.

    An agent has a row for each of `rows_of`'s; `agents` and `baseline` name agents or rows. They come in the order of
    `agents`, else the baseline first and the others by rising success, those of other splits last.
    DataError on a run, an agent or a baseline of which nothing is finished, and on a baseline of several rows.
    """
    chosen, agents, baseline = selection.in_runs(store), selection.agents, selection.baseline
    rows, finished = read_rows(store, selection)
    by_agent = grouped(finished, lambda episode: episode.agent)
    for agent in [*(agents or ()), *([] if baseline is None else [baseline])]:
        if not rows.of(agent):
            raise DataError(
                f"agent {agent!r} has no finished episode in {', '.join(chosen) or 'the store'}: "
                f"finished are {', '.join(sorted(by_agent)) or 'none'}"
            )
    if not by_agent:
        raise DataError(f"no episode is finished in {', '.join(chosen) or 'the store'}: run `bestofq eval` first")
    baseline = None if baseline is None else rows.one(baseline)
    names = (
        list(by_agent) if agents is None else list(dict.fromkeys(name for agent in agents for name in rows.of(agent)))
    )
    cut = selection.summaries(store, status="cut")
    cuts = never_finished(rows.named(cut), finished)
    against = attempts_of(by_agent.get(baseline or "", ()))

    def row(agent: str) -> AgentRow:
        episodes = by_agent[agent]
        attempts = attempts_of(episodes)
        if not attempts:
            raise DataError(
                f"none of the {len(episodes)} finished episodes of {agent!r} has a verdict: "
                "run `bestofq judge` first, or choose with --run"
            )
        return AgentRow(
            agent=agent,
            **stats.performance(attempts, () if agent == baseline else against),
            runs=len({attempt.run for attempt in attempts}),
            identical_runs=stats.identical_runs(attempts),
            task_variance=stats.task_variance(attempts),
            outcomes=outcomes_of(episodes, cuts[agent]),
            judges=judges_of(episodes),
        )

    found = [row(name) for name in names]
    if agents is None:
        found.sort(key=lambda row: (row.agent != baseline, not rows.main(row.agent), row.success.mean, row.agent))
    read = {e.run for e in finished if e.agent in (*names, baseline)}
    sources = tuple(
        Source(run=run.name, config_hash=run.config_hash, version=run.provenance.version, commit=run.provenance.commit)
        for run in store.runs()
        if run.name in read
    )
    return Results(rows=tuple(found), baseline=baseline, sources=sources, apart=any(map(rows.part_of, names)))


PERFORMANCE = columns(
    *("success %", "± over runs %", "steps for success", "± of steps", "difference %", "tasks", "episodes"),
    signed=["difference"],
)
"""The columns of `performance_cells`."""


class Performance(Protocol):
    """A row with the fields of `stats.performance`."""

    @property
    def success(self) -> Estimate: ...
    @property
    def interval(self) -> Interval: ...
    @property
    def steps_for_success(self) -> Estimate | None: ...
    @property
    def steps_interval(self) -> Interval | None: ...
    @property
    def difference(self) -> Difference | None: ...
    @property
    def tasks(self) -> int: ...
    @property
    def episodes(self) -> int: ...


def performance_cells(row: Performance) -> tuple[Cell, ...]:
    """Success, steps and difference with their intervals over tasks, the former two with their errors over runs."""
    success, steps = row.success, row.steps_for_success
    return (
        *(Measure(value=success.mean, interval=row.interval), success.error),
        *((None, None) if steps is None else (Measure(value=steps.mean, interval=row.steps_interval), steps.error)),
        *(row.difference, row.tasks, row.episodes),
    )


def success_table(found: Results, made: Mapping[str, Origin] | None = None) -> Table:
    """Table 2, a row an agent, whose origin is `made`'s."""
    return Table(
        name="agents",
        title="Success and steps of each agent (Best-of-Q, Table 2)",
        columns=(*columns("agent"), *PERFORMANCE, *columns("outcomes")),
        rows=tuple(
            Row(
                cells=(row.agent, *performance_cells(row), outcome_words(row.outcomes)),
                origin=(made or {}).get(row.agent),
            )
            for row in found.rows
        ),
        notes=("In brackets: 95 % bootstrap over tasks; a number of one task alone has none.", *found.notes),
    )
