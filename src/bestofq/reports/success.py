"""Success and steps of each agent (Best-of-Q, Table 2)."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import get_args

from pydantic import Field

from bestofq.core.decision import TOLD, Outcome
from bestofq.core.errors import DataError
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.origin import Origin
from bestofq.reports.rows import APART, EVERYTHING, Selection, read_rows
from bestofq.reports.stats import Attempt, Difference, Estimate, Interval, Measure
from bestofq.reports.table import Cell, Column, Row, Table
from bestofq.store.records import EpisodeSummary
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
    outcomes: dict[
        Outcome, int
    ]  # of finished episodes; `infra_error`: cut and never finished afterwards; `success` is a share of TOLD's alone
    judges: dict[str, int] = Field(default_factory=dict)  # verdicts of TOLD that a judge gave, by its name

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

    def row(self, agent: str) -> AgentRow:
        """DataError when the table has no such agent."""
        for row in self.rows:
            if row.agent == agent:
                return row
        raise DataError(f"there is no agent {agent!r} in the table: it has {', '.join(r.agent for r in self.rows)}")

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


def agent_results(
    store: Store, selection: Selection = EVERYTHING, *, resamples: int = stats.RESAMPLES, seed: int = 0
) -> Results:
    """The results of the selection's agents, each compared with its baseline.

    An agent has a row for each of `rows_of`'s; `agents` and `baseline` name agents or rows. They come in the order of
    `agents`, else the baseline first and the others by rising success, those of other splits last.
    DataError on a run, an agent or a baseline of which nothing is finished, and on a baseline of several rows.
    """
    chosen, agents, baseline = selection.in_runs(store), selection.agents, selection.baseline
    rows, finished = read_rows(store, selection)
    by_agent = _by_agent(finished)
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
        list(by_agent) if agents is None else list(dict.fromkeys(name for asked in agents for name in rows.of(asked)))
    )
    cut = selection.summaries(store, status="cut")
    cuts = never_finished(rows.named(cut), finished)
    against = None if baseline is None else attempts_of(by_agent[baseline])

    def row(agent: str) -> AgentRow:
        episodes = by_agent[agent]
        attempts = attempts_of(episodes)
        if not attempts:
            raise DataError(
                f"none of the {len(episodes)} finished episodes of {agent!r} has a verdict: "
                "run `bestofq judge` first, or choose with --run"
            )
        success = stats.success_rate(attempts)
        compared = against is not None and agent != baseline
        outcomes = Counter(episode.outcome for episode in episodes)
        outcomes["infra_error"] = cuts[agent]
        return AgentRow(
            agent=agent,
            success=success,
            interval=stats.success_interval(attempts, resamples=resamples, seed=seed),
            steps_for_success=stats.steps_for_success(attempts),
            steps_interval=stats.steps_interval(attempts, resamples=resamples, seed=seed),
            episodes=len(attempts),
            tasks=len({attempt.task for attempt in attempts}),
            runs=success.runs,
            identical_runs=stats.identical_runs(attempts),
            task_variance=stats.task_variance(attempts),
            difference=stats.paired_difference(attempts, against or (), resamples=resamples, seed=seed)
            if compared
            else None,
            outcomes={name: outcomes[name] for name in get_args(Outcome) if outcomes[name]},
            judges=judges_of(episodes),
        )

    found = [row(name) for name in names]
    if agents is None:
        found.sort(key=lambda row: (row.agent != baseline, not rows.main(row.agent), row.success.mean, row.agent))
    sources = _source(store, [e for e in finished if e.agent in (*names, baseline)])
    return Results(rows=tuple(found), baseline=baseline, sources=tuple(sources), apart=any(map(rows.part_of, names)))


def _by_agent(episodes: Iterable[EpisodeSummary]) -> dict[str, list[EpisodeSummary]]:
    found: dict[str, list[EpisodeSummary]] = {}
    for episode in episodes:
        found.setdefault(episode.agent, []).append(episode)
    return found


def never_finished(cut: Iterable[EpisodeSummary], finished: Iterable[EpisodeSummary]) -> Counter[str]:
    """By agent, the slots that were cut and have no finished episode."""
    done = {(episode.run, episode.agent, episode.slot) for episode in finished}
    return Counter(agent for _, agent, _ in {(e.run, e.agent, e.slot) for e in cut} - done)


def attempts_of(episodes: Iterable[EpisodeSummary]) -> list[Attempt]:
    """The episodes whose outcome tells how the agent did, as statistics need them."""
    return [
        Attempt(task=e.slot[:2], run=(e.run, e.slot.repeat), success=e.success, steps=e.steps)
        for e in episodes
        if e.told
    ]


def counted(outcomes: Mapping[Outcome, int]) -> int:
    """How many of them a success rate is a share of."""
    return sum(count for outcome, count in outcomes.items() if outcome in TOLD)


def outcome_notes(rows: Iterable[Mapping[Outcome, int]]) -> list[str]:
    """What is left out of the rates, and what is not, one sentence each."""
    total = sum((Counter(row) for row in rows), Counter[Outcome]())
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
    return dict(Counter(e.judge for e in episodes if e.told and e.judge))


def judge_notes(rows: Iterable[Mapping[str, int]], told: int) -> list[str]:
    """Which of the `told` verdicts are a judge's, a sentence a judge."""
    total = sum((Counter(row) for row in rows), Counter[str]())
    return [
        f"{count} of {told} verdicts are by the judge {judge}; its error is not in these intervals: "
        f"`bestofq report --judge {shlex.quote(judge)} --judge-run RUN` puts it in, in the table `judged`."
        for judge, count in total.items()
    ]


def outcome_words(outcomes: Mapping[Outcome, int]) -> str:
    """`3 success, 1 blocked (of 4); apart: 1 unparseable`."""
    told = [f"{count} {name}" for name, count in outcomes.items() if name in TOLD]
    apart = [f"{count} {name.replace('_', ' ')}" for name, count in outcomes.items() if name not in TOLD]
    return f"{', '.join(told)} (of {counted(outcomes)})" + (f"; apart: {', '.join(apart)}" if apart else "")


def _source(store: Store, finished: Iterable[EpisodeSummary]) -> list[Source]:
    read = {episode.run for episode in finished}
    return [
        Source(run=run.name, config_hash=run.config_hash, version=run.provenance.version, commit=run.provenance.commit)
        for run in store.runs()
        if run.name in read
    ]


def success_table(found: Results, made: Mapping[str, Origin] | None = None) -> Table:
    """Table 2, a row an agent, whose origin is `made`'s."""
    return Table(
        name="agents",
        title="Success and steps of each agent (Best-of-Q, Table 2)",
        columns=(
            Column(name="agent"),
            Column(name="success", percent=True),
            Column(name="± over runs", percent=True),
            Column(name="steps for success"),
            Column(name="± of steps"),
            Column(name="difference", percent=True, signed=True),
            Column(name="tasks"),
            Column(name="episodes"),
            Column(name="outcomes"),
        ),
        rows=tuple(
            Row(
                cells=(
                    row.agent,
                    Measure(value=row.success.mean, interval=row.interval),
                    row.success.error,
                    *steps_cells(row.steps_for_success, row.steps_interval),
                    row.difference,
                    row.tasks,
                    row.episodes,
                    outcome_words(row.outcomes),
                ),
                origin=(made or {}).get(row.agent),
            )
            for row in found.rows
        ),
        notes=("In brackets: 95 % bootstrap over tasks; a number of one task alone has none.", *found.notes),
    )


def steps_cells(steps: Estimate | None, interval: Interval | None) -> tuple[Cell, Cell]:
    """Steps with their interval over tasks, and their standard error over runs."""
    return (None, None) if steps is None else (Measure(value=steps.mean, interval=interval), steps.error)
