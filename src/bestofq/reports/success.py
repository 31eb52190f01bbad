"""Success and steps of groups of episodes: by agent, by domain, and by any setting of the runs.

Best-of-Q's Table 2 is grouped by agent and Tables 5 to 8 by domain. Its Tables 3, 4 and 10 to 12 and Agent Q's Figs. 3
and 6 are grouped by settings or stores.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field, JsonValue

from bestofq.core.decision import DECIDED, Outcome
from bestofq.core.errors import DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.words import count_of
from bestofq.reports import stats
from bestofq.reports.naming import place
from bestofq.reports.origin import Runs, origin, proposer_model, requested_candidates, runs_of, setting
from bestofq.reports.rows import BASELINE, EVERYTHING, Rows, Selection, read_rows, suffixes
from bestofq.reports.stats import Estimate, Interval, Measure, PairedDifference, Tries, distinct, group_by
from bestofq.reports.table import Row, RowSource, Table, columns
from bestofq.store.records import RunRecord
from bestofq.store.store import Store
from bestofq.store.tally import OUTCOMES, Tally

ALL = "all"
KEYS = ("store", "run", "agent", "suite", "split", "model", "N")
"""What can be grouped by without being a setting of a run. model: the proposer's; N: candidates requested at a step."""
PERFORMANCE = columns(
    *("success %", "± over runs %", "steps for success", "± of steps", "difference %", "tasks", "episodes", "outcomes"),
    signed=["difference"],
)
_TITLES = {
    ("agent",): ("agents", "Success and steps of each agent (Best-of-Q, Table 2)"),
    ("domain", "agent"): ("domains", "Success by domain (Best-of-Q, Tables 5 to 8)"),
}


class GroupResult(FrozenModel):
    """What every table of success says of some episodes. Rates lie in [0, 1]; a run is one (run, repeat) of a store."""

    agent: str  # the row's name: its values with commas
    values: tuple[str, ...]  # one for each key of the grouping
    success: Estimate | None = None  # None: no outcome tells how the agent did
    interval: Interval | None = None  # of success, over other tasks
    steps_for_success: Estimate | None = None
    steps_interval: Interval | None = None  # of steps_for_success, over other tasks
    episodes: int = 0  # that `success` is a share of
    tasks: int = 0
    runs: int = 0
    difference: PairedDifference | None = None  # to the baseline; None for itself, and without a common task
    outcomes: dict[Outcome, int]  # of all episodes; `infra_error`: cut and never finished
    judged: int = 0  # how many of its verdicts are a judge's
    origin: RowSource | None = Field(default=None, exclude=True)

    @property
    def rate(self) -> Measure:
        return Measure(value=self.success and self.success.mean, interval=self.interval)

    @property
    def steps(self) -> Measure | None:
        """Of successful episodes; None if there is none."""
        steps = self.steps_for_success
        return None if steps is None else Measure(value=steps.mean, interval=self.steps_interval)

    @property
    def outcome_words(self) -> str:
        """`3 success, 1 blocked (of 4); apart: 1 unparseable`."""
        decided = [f"{count} {name}" for name, count in self.outcomes.items() if name in DECIDED]
        apart = [f"{count} {name.replace('_', ' ')}" for name, count in self.outcomes.items() if name not in DECIDED]
        return f"{', '.join(decided)} (of {self.episodes})" + (f"; apart: {', '.join(apart)}" if apart else "")


class Grouping(FrozenModel):
    """Success by the values of `keys`, and the runs that it comes from."""

    keys: tuple[str, ...] = ("agent",)
    rows: tuple[GroupResult, ...]
    baseline: str | None
    runs: tuple[str, ...] = ()
    apart: bool = False  # whether a row holds only some of its agent's runs
    unjudged: tuple[str, ...] = ()  # rows left out: none of their episodes has a verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about these numbers, one sentence each."""
        totals = [row for row in self.rows if self.keys[0] != "domain" or row.values[0] == ALL]
        counts = sum((Counter(row.outcomes) for row in totals), Counter[Outcome]())
        judged, verdicts = sum(row.judged for row in totals), sum(row.episodes for row in totals)
        notes: dict[str, object] = {
            "±: standard error over runs; it says nothing about other tasks.": True,
            "In brackets: the run; behind @: the Q-function's hash. An agent's runs on different tasks, or with "
            "different settings, model or Q-function, are rows of their own.": self.apart,
            f"Difference to {self.baseline} in points, paired by task; 95 % bootstrap over tasks ({stats.RESAMPLES:,} "
            "resamples).": self.baseline is not None,
            "One in twenty of the domains' intervals excludes zero by chance.": (
                self.baseline is not None and totals != [*self.rows]
            ),
            "Left out, none of their episodes has a verdict (`bestofq judge`): "
            f"{', '.join(self.unjudged)}.": self.unjudged,
            "Blocked and impossible episodes count as not successful, as in the paper (D).": (
                counts["blocked"] or counts["impossible"]
            ),
            f"Left out of success: {counts['unparseable']} unparseable and "
            f"{count_of(counts['unjudged'], 'unjudged episode')}: `bestofq judge` judges them again.": (
                counts["unparseable"] or counts["unjudged"]
            ),
            f"Left out: {count_of(counts['infra_error'], 'episode')} cut by the infrastructure and never finished.": (
                counts["infra_error"]
            ),
            f"{judged} of {verdicts} verdicts are a judge's. These intervals do not include its error: `bestofq judge "
            "--against-env` measures it.": judged,
        }
        return tuple(note for note, applies in notes.items() if applies)


def performance(tries: Tries, against: Tries | None = None) -> dict[str, Any]:
    """The numbers of a `GroupResult`. The difference is to `against` on common tasks; empty without an attempt."""
    if not tries:
        return {}
    return {
        "success": stats.success_rate(tries),
        "interval": stats.success_interval(tries),
        "steps_for_success": stats.steps_for_success(tries),
        "steps_interval": stats.steps_interval(tries),
        "episodes": int(tries.done.sum()),
        "tasks": len(tries.tasks),
        "runs": tries.done.shape[1],
        "difference": stats.paired_difference(tries, against) if against else None,
    }


Values = tuple[str, ...]  # of the keys of a grouping


def _measure_groups(
    groups: Mapping[Values, Sequence[Tally]], baseline: Callable[[Values], Values], runs: Runs
) -> list[GroupResult]:
    """Each group, compared with the one that `baseline` names."""
    tries = {values: Tries.of_tallies([t for t in some if t.status == "finished"]) for values, some in groups.items()}
    return [
        GroupResult(
            agent=values[-1] if values[0] == ALL else ", ".join(values),
            values=values,
            **performance(tries[values], None if baseline(values) == values else tries.get(baseline(values))),
            outcomes=_count_outcomes(some),
            judged=sum(int(t.attempts[t.attempts[:, 2] < len(DECIDED), 3].sum()) for t in some),
            origin=origin(some, runs),
        )
        for values, some in groups.items()
    ]


def _count_outcomes(tallies: Sequence[Tally]) -> dict[Outcome, int]:
    """How many finished episodes had each outcome; `infra_error`: how many were cut and never finished."""
    done, cut = ([t for t in tallies if t.status == status] for status in ("finished", "cut"))
    kinds = np.concatenate([np.zeros(0, np.int64), *(t.attempts[:, 2] for t in done)])
    counts = np.bincount(kinds, minlength=len(OUTCOMES)).tolist()
    if cut:
        lost, saved = (
            {(t.run, t.agent, t.suite, t.tasks[at], n) for t in some for at, n in t.attempts[:, :2].tolist()}
            for some in (cut, done)
        )
        counts[OUTCOMES.index("infra_error")] += len(lost - saved)
    return {name: counts[i] for i, name in enumerate(OUTCOMES) if counts[i]}


def _choose_rows(store: Store, selection: Selection) -> tuple[Rows, list[str], str | None]:
    """The selection's rows, the names of those that its `agents` mean, and its baseline's name. DataError if a run, an
    agent or a baseline has no finished episode, or if a baseline has several rows."""
    chosen, agents = ", ".join(selection.in_runs(store)) or "the store", selection.agents
    rows = read_rows(store, selection)
    for agent in [*(agents or ()), *([] if selection.baseline is None else [selection.baseline])]:
        if not rows.of(agent):
            raise DataError(
                f"agent {agent!r} has no finished episode in {chosen}: finished are {', '.join(sorted(rows)) or 'none'}"
            )
    if not rows:
        raise DataError(f"no episode is finished in {chosen}: run `bestofq eval` or `serve`")
    return rows, sorted(rows) if agents is None else rows.of(*agents), rows.find_one(selection.baseline)


def agent_results(store: Store, selection: Selection = EVERYTHING) -> Grouping:
    """The results of the selection's agents, each compared with its baseline.

    An agent has a row for each of `read_rows`; `agents` and `baseline` name agents or rows. They come in the order of
    `agents`, else the baseline first, the others in `naming.ORDER`, and those of other splits last. Rows without a
    verdict are left out, unless `agents` names them. DataError if a run, an agent or a baseline has no finished
    episode, or if a baseline has several rows. DataError if no row, or not each of `agents`, has a verdict.
    """
    rows, wanted, baseline = _choose_rows(store, selection)
    groups: dict[Values, Sequence[Tally]] = {
        (name,): rows[name].tallies for name in rows if name in (*wanted, baseline)
    }
    measured = {row.agent: row for row in _measure_groups(groups, lambda _: (baseline or "",), runs_of(store))}
    names = [name for name in wanted if measured[name].success]
    unjudged = [name for name in wanted if not measured[name].success]
    if unjudged and (selection.agents is not None or not names):
        count = sum(len(t.attempts) for t in rows[unjudged[0]].tallies if t.status == "finished")
        raise DataError(
            f"none of the {count} finished episodes of {unjudged[0]!r} has a verdict: run `bestofq judge` first, or "
            "choose with --run"
        )
    if selection.agents is None:
        names.sort(key=lambda name: (name != baseline, not rows[name].is_main, *place(name)))
    read = {part.run for name in rows if name in (*names, baseline) for part in rows[name].parts}
    return Grouping(
        rows=tuple(measured[name] for name in names),
        baseline=baseline if baseline in measured and measured[baseline].success else None,
        runs=tuple(run.name for run in store.runs() if run.name in read),
        apart=any(name != rows[name].agent for name in names),
        unjudged=tuple(unjudged),
    )


def domain_of(task: str) -> str:
    """`Allrecipes` for the task `Allrecipes--0`, `click-tab` for `click-tab/17`; `–` for others."""
    return task.rpartition("--")[0] or task.rpartition("/")[0] or "–"


def domain_results(
    store: Store, selection: Selection = EVERYTHING, *, by: Callable[[str], str] = domain_of
) -> Grouping:
    """Success by domain of the selection's agents, each compared with its baseline; `agents` and `baseline` name agents
    or rows, as in `agent_results`. The last rows (`ALL`) hold all domains together.

    `by` gives the domain of a task's id. DataError if a run, an agent or a baseline has no finished episode, or if a
    baseline has several rows.
    """
    rows, names, baseline = _choose_rows(store, selection)
    known = {name: rows[name].tallies for name in distinct([*names, *([] if baseline is None else [baseline])])}
    parts = {name: _split_by_domain(some, by) for name, some in known.items()}
    groups: dict[Values, Sequence[Tally]] = {
        (domain, name): parts[name].get(domain, ())
        for domain in sorted({domain for name in names for domain in parts[name]})
        for name in known
    }
    groups |= {(ALL, name): some for name, some in known.items()}
    found = _measure_groups(groups, lambda values: (values[0], baseline or ""), runs_of(store))
    return Grouping(
        keys=("domain", "agent"),
        rows=tuple(row for row in found if row.values[1] in names),
        baseline=baseline,
        apart=any(name != rows[name].agent for name in names),
    )


def _split_by_domain(tallies: Sequence[Tally], by: Callable[[str], str]) -> dict[str, list[Tally]]:
    parts: dict[str, list[Tally]] = {}
    for tally in tallies:
        domains = np.array([by(task) for task in tally.tasks])[tally.attempts[:, 0]]
        for domain in {*domains.tolist()}:
            parts.setdefault(domain, []).append(tally._replace(attempts=tally.attempts[domains == domain]))
    return parts


def by_setting(stores: Mapping[str, Store], keys: Sequence[str], selection: Selection = EVERYTHING) -> Grouping:
    """Success for each combination of the values of `keys`, in the order of stores, runs and agents.

    A key is one of `KEYS` or a dotted setting of the run's configuration (`epsilon`, `model.path`); a run without it
    has the value `–`. A row never holds several agents or Q-functions: then `agent` becomes one more key, and each
    Q-function has a row, `best-of-q @3fa2c1`. Differences are to the row that the baseline names (its values, with
    commas), by default to the first of prompting, else to the first.

    DataError if nothing is finished with a verdict, or there is no such run, setting or baseline.
    """
    runs = {(name, run.name): run for name, store in stores.items() for run in store.runs()}
    known = distinct(run for _, run in runs)
    if missing := [run for run in selection.runs or () if run not in known]:
        raise DataError(f"there is no run {missing[0]!r}: there are {', '.join(known) or 'none'}")
    for key in keys:
        if key not in KEYS and all(setting(run.config, key) is None for run in runs.values()):
            raise DataError(f"no run has a setting {key!r}: give one of `bestofq settings`, or {', '.join(KEYS)}")
    tallies = _load_tallies(stores, runs, selection)

    def group(keys: Sequence[str]) -> dict[Values, list[Tally]]:
        return group_by(tallies, lambda t: tuple(_value(key, t, runs[t.store, t.run]) for key in keys))

    groups = group(keys)
    if "agent" not in keys and any(len({(t.agent, t.checkpoint) for t in row}) > 1 for row in groups.values()):
        keys = (*keys, "agent")
        groups = group(keys)
    rows: dict[Values, list[Tally]] = {}
    for values, row in groups.items():
        by_q = group_by(row, lambda t: t.checkpoint)
        for checkpoint, suffix in suffixes(by_q).items():
            named = (v + suffix if key == "agent" else v for key, v in zip(keys, values, strict=True))
            rows[tuple(named)] = by_q[checkpoint]
    names, baseline = {", ".join(values): values for values in rows}, selection.baseline
    if baseline is not None and baseline not in names:
        raise DataError(f"there is no row {baseline!r} to compare with: there are {'; '.join(names)}")
    usual = (values for values, row in rows.items() if all(tally.agent == BASELINE for tally in row))
    first = next(usual, next(iter(rows))) if baseline is None else names[baseline]
    measured = _measure_groups(rows, lambda _: first, runs)
    return Grouping(keys=tuple(keys), rows=tuple(measured), baseline=", ".join(first))


def _load_tallies(stores: Mapping[str, Store], runs: Runs, selection: Selection) -> list[Tally]:
    """The finished episodes with a verdict, by store, run and agent. DataError without any."""
    chosen = [key for key in runs if selection.runs is None or key[1] in selection.runs]
    found = [
        tally._replace(store=name)
        for name, store in stores.items()
        for tally in replace(selection, runs=[run for owner, run in chosen if owner == name]).tallies(store)
        if tally.status == "finished" and (tally.attempts[:, 2] < len(DECIDED)).any()
    ]
    agents = [*(selection.agents or sorted({tally.agent for tally in found}))]
    found = [tally for tally in found if tally.agent in agents]
    if not found:
        raise DataError(
            f"no episode is finished with a verdict in {', '.join(stores) or 'no store'}: "
            "run `bestofq eval`, `serve` or `judge`"
        )
    return sorted(found, key=lambda t: (chosen.index((t.store, t.run)), agents.index(t.agent)))


def _value(key: str, tally: Tally, run: RunRecord) -> str:
    if key in ("store", "run", "agent", "suite", "split"):
        return str(getattr(tally, key))
    value: JsonValue = requested_candidates(run, tally.agent) if key == "N" else setting(run.config, key)
    if key == "model":
        value = proposer_model(run.config)
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def success_table(found: Grouping) -> Table:
    """A row for each group."""
    name, title = _TITLES.get(found.keys) or (
        "by-" + "-".join(key.replace(".", "-").replace("/", "-") for key in found.keys),
        f"Success by {', '.join(found.keys)}",
    )
    rows = []
    for row in found.rows:
        errors = [estimate and estimate.error for estimate in (row.success, row.steps_for_success)]
        numbers = (row.rate, errors[0], row.steps, errors[1], row.difference, row.tasks, row.episodes)
        rows.append(Row(cells=(*row.values, *numbers, row.outcome_words), origin=row.origin))
    return Table(
        name=name,
        title=title,
        columns=(*columns(*found.keys), *PERFORMANCE),
        rows=tuple(rows),
        notes=("In brackets: 95 % bootstrap over tasks; if all tasks are alike, the exact bound.", *found.notes),
    )


def domain_grid(found: Grouping) -> Table:
    """Table 5's shape: a row for each domain, a column for each agent, then their differences to the baseline."""
    domains = group_by(found.rows, lambda row: row.values[0])
    agents = [row.values[1] for row in domains[ALL]]
    compared = [i for i, agent in enumerate(agents) if found.baseline not in (None, agent)]
    against = [f"{agents[i]} − {found.baseline}" for i in compared]
    return Table.of(
        "domain-grid",
        "Success by domain",
        columns("domain", "tasks", *(f"{head} %" for head in (*agents, *against)), signed=against),
        [
            (
                domain,
                max(row.tasks for row in rows),
                *(row.success for row in rows),
                *(rows[i].difference for i in compared),
            )
            for domain, rows in domains.items()
        ],
        *(f"{row.values[1]}: {row.outcome_words}." for row in domains[ALL]),
        *found.notes,
    )
