"""Success and steps of each agent (Best-of-Q, Table 2)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import Field

from bestofq.core.decision import DECIDED, Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.reports import stats
from bestofq.reports.naming import place
from bestofq.reports.rows import APART, EVERYTHING, Selection, read_rows
from bestofq.reports.stats import Attempt, Estimate, Interval, Measure, PairedDifference, attempts_of, group_by
from bestofq.reports.table import Cell, Row, RowSource, Table, columns
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


class Performance(FrozenModel):
    """What every table of success says of an agent. Rates lie in [0, 1]; a run is one (run, repeat) of a store."""

    agent: str  # the row's name
    success: Estimate
    interval: Interval  # of success, over other tasks
    steps_for_success: Estimate | None
    steps_interval: Interval | None = None  # of steps_for_success, over other tasks
    episodes: int
    tasks: int
    runs: int
    identical_runs: bool
    difference: PairedDifference | None  # None: the baseline itself, or no baseline, or no task in common

    @property
    def rate(self) -> Measure:
        return Measure(value=self.success.mean, interval=self.interval)

    @property
    def steps(self) -> Measure | None:
        """Of successful episodes; None where there is none."""
        steps = self.steps_for_success
        return None if steps is None else Measure(value=steps.mean, interval=self.steps_interval)

    def cells(self) -> tuple[Cell, ...]:
        """One per column of `PERFORMANCE`; with intervals over tasks and errors over runs."""
        steps_error = self.steps_for_success.error if self.steps_for_success else None
        return self.rate, self.success.error, self.steps, steps_error, self.difference, self.tasks, self.episodes


PERFORMANCE = columns(
    *("success %", "± over runs %", "steps for success", "± of steps", "difference %", "tasks", "episodes"),
    signed=["difference"],
)


def performance(attempts: Sequence[Attempt], against: Sequence[Attempt] = ()) -> dict[str, Any]:
    """The fields of `Performance` but `agent`. The difference is to `against` on the tasks of both."""
    return {
        "success": stats.success_rate(attempts),
        "interval": stats.success_interval(attempts),
        "steps_for_success": stats.steps_for_success(attempts),
        "steps_interval": stats.steps_interval(attempts),
        "episodes": len(attempts),
        "tasks": len(stats.by_task(attempts)),
        "runs": len({attempt.run for attempt in attempts}),
        "identical_runs": stats.identical_runs(attempts),
        "difference": stats.paired_difference(attempts, against),
    }


class AgentRow(Performance):
    """One agent's results."""

    outcomes: dict[Outcome, int]  # as `outcomes_of`; `success` is a share of DECIDED's alone
    judges: dict[str, int] = Field(default_factory=dict)  # verdicts of DECIDED that a judge gave, by its name


class SuccessReport(FrozenModel):
    """All agents' results, and the runs they come from."""

    rows: tuple[AgentRow, ...]
    baseline: str | None
    runs: tuple[str, ...]  # that the rows and the baseline come from
    apart: bool = False  # whether a row holds only some of its agent's runs
    unjudged: tuple[str, ...] = ()  # rows left out: none of their episodes has a verdict

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
        if self.unjudged:
            notes.append(
                f"Left out, none of their episodes has a verdict (`bestofq judge`): {', '.join(self.unjudged)}."
            )
        if same := [row.agent for row in self.rows if row.identical_runs]:
            notes.append(f"Runs identical step for step, so ± is 0: {', '.join(same)}.")
        if single := [row.agent for row in self.rows if row.runs == 1]:
            notes.append(f"One run only, so no ±: {', '.join(single)}.")
        outcomes = [row.outcomes for row in self.rows]
        return (*notes, *outcome_notes(outcomes), *judge_notes((row.judges for row in self.rows), outcomes))


def agent_results(store: Store, selection: Selection = EVERYTHING) -> SuccessReport:
    """The results of the selection's agents, each compared with its baseline.

    An agent has a row for each of `rows_of`'s; `agents` and `baseline` name agents or rows. They come in the order of
    `agents`, else the baseline first and the others in `naming.ORDER`, those of other splits last. Rows without a
    verdict are left out, where no `agents` are asked for; there are no differences to a baseline without one.
    DataError on a run, an agent or a baseline of which nothing is finished, on a baseline of several rows, and where no
    row, or not each of `agents`, has a verdict.
    """
    chosen, agents = ", ".join(selection.in_runs(store)) or "the store", selection.agents
    rows, finished = read_rows(store, selection)
    by_agent = group_by(finished, lambda episode: episode.agent)
    for agent in [*(agents or ()), *([] if selection.baseline is None else [selection.baseline])]:
        if not rows.of(agent):
            raise DataError(
                f"agent {agent!r} has no finished episode in {chosen}: finished are "
                f"{', '.join(sorted(by_agent)) or 'none'}"
            )
    if not by_agent:
        raise DataError(f"no episode is finished in {chosen}: run `bestofq eval` first")
    attempts = {agent: attempts_of(episodes) for agent, episodes in by_agent.items()}
    asked = list(by_agent) if agents is None else rows.of(*agents)
    unjudged, names = ([name for name in asked if bool(attempts[name]) == judged] for judged in (False, True))
    if unjudged and (agents is not None or not names):
        raise DataError(
            f"none of the {len(by_agent[unjudged[0]])} finished episodes of {unjudged[0]!r} has a verdict: "
            "run `bestofq judge` first, or choose with --run"
        )
    baseline = rows.one(selection.baseline)
    against = attempts.get(baseline or "", ())
    cuts = count_unfinished(rows.name_rows(selection.summaries(store, status="cut")), finished)

    def row(agent: str) -> AgentRow:
        return AgentRow(
            agent=agent,
            **performance(attempts[agent], () if agent == baseline else against),
            outcomes=outcomes_of(by_agent[agent], cuts[agent]),
            judges=judges_of(by_agent[agent]),
        )

    found = [row(name) for name in names]
    if agents is None:
        found.sort(key=lambda row: (row.agent != baseline, not rows.main(row.agent), *place(row.agent)))
    read = {e.run for e in finished if e.agent in (*names, baseline)}
    return SuccessReport(
        rows=tuple(found),
        baseline=baseline if against else None,
        runs=tuple(run.name for run in store.runs() if run.name in read),
        apart=any(map(rows.part_of, names)),
        unjudged=tuple(unjudged),
    )


def success_table(found: SuccessReport, made: Mapping[str, RowSource] | None = None) -> Table:
    """Table 2, a row an agent, whose origin is `made`'s."""
    return Table(
        name="agents",
        title="Success and steps of each agent (Best-of-Q, Table 2)",
        columns=(*columns("agent"), *PERFORMANCE, *columns("outcomes")),
        rows=tuple(
            Row(cells=(row.agent, *row.cells(), outcome_words(row.outcomes)), origin=(made or {}).get(row.agent))
            for row in found.rows
        ),
        notes=("In brackets: 95 % bootstrap over tasks; a number of one task alone has none.", *found.notes),
    )


def outcomes_of(finished: Iterable[EpisodeSummary], cut: int) -> dict[Outcome, int]:
    """How many finished episodes came to each outcome; `infra_error`: the `cut` ones that never finished."""
    counts = Counter[str | None](episode.outcome for episode in finished) | Counter[str | None](infra_error=cut)
    return {name: counts[name] for name in get_args(Outcome) if counts[name]}


def count_unfinished(cut: Iterable[EpisodeSummary], finished: Iterable[EpisodeSummary]) -> Counter[str]:
    """By agent, the episodes that were cut and have no finished episode."""
    lost = {(e.run, e.agent, e.key) for e in cut}
    done = ((e.run, e.agent, e.key) for e in finished) if lost else ()
    return Counter(agent for _, agent, _ in lost.difference(done))


def count_judged(outcomes: Mapping[Outcome, int]) -> int:
    """How many of them a success rate is a share of."""
    return sum(count for outcome, count in outcomes.items() if outcome in DECIDED)


def outcome_notes(rows: Iterable[Mapping[Outcome, int]]) -> list[str]:
    """What is left out of the rates, and what is not, one sentence each."""
    total = sum(map(Counter, rows), Counter[Outcome]())
    notes = []
    if total["blocked"] or total["impossible"]:
        notes.append("Blocked and impossible episodes count as not successful, as in the paper (D).")
    if total["unparseable"] or total["unjudged"]:
        notes.append(
            f"{total['unparseable']} unparseable and {total['unjudged']} unjudged episodes are left out of success: "
            "`bestofq judge` judges them again."
        )
    if total["infra_error"]:
        notes.append(
            f"{total['infra_error']} episodes cut by the infrastructure and never finished are left out of success."
        )
    return notes


def judges_of(episodes: Iterable[EpisodeSummary]) -> dict[str, int]:
    """How many verdicts that tell each judge gave; the environment's are left out."""
    return dict(Counter(e.judge for e in episodes if e.decided and e.judge))


def judge_notes(judges: Iterable[Mapping[str, int]], outcomes: Iterable[Mapping[Outcome, int]]) -> list[str]:
    """Which of the verdicts are a judge's, a sentence a judge."""
    total, decided = sum(map(Counter, judges), Counter[str]()), sum(map(count_judged, outcomes))
    return [
        f"{count} of {decided} verdicts are by the judge {judge}. These intervals do not include its error: "
        "`bestofq judge --against-env` measures it."
        for judge, count in total.items()
    ]


def outcome_words(outcomes: Mapping[Outcome, int]) -> str:
    """`3 success, 1 blocked (of 4); apart: 1 unparseable`."""
    decided = [f"{count} {name}" for name, count in outcomes.items() if name in DECIDED]
    apart = [f"{count} {name.replace('_', ' ')}" for name, count in outcomes.items() if name not in DECIDED]
    return f"{', '.join(decided)} (of {count_judged(outcomes)})" + (f"; apart: {', '.join(apart)}" if apart else "")
