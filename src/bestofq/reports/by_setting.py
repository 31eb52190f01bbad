"""One table for every ablation: success and steps by a setting of the runs, over one store or several.

Best-of-Q's Table 3 (by store, one a picker, and `model`), Table 4 (by `N` and by store: which Q-function it used),
Tables 10 to 12 (by run or store) and Agent Q's Figs. 3 and 6 (by `agent`, one store an approach) are this table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.reports.origin import origin, proposer_model, setting, together
from bestofq.reports.rows import BASELINE, EVERYTHING, Selection, parts_of, suffixes
from bestofq.reports.stats import Attempt, attempts_of, group_by
from bestofq.reports.success import PERFORMANCE, Performance, performance
from bestofq.reports.table import Row, RowSource, Table, columns
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.store import Store

KEYS = ("store", "run", "agent", "suite", "split", "model", "N")
"""What is no setting of a run, and can be grouped by all the same. model: who proposes, an endpoint's or a local one;
N: candidates asked for at a step."""


class LoadedDecisions(NamedTuple):
    """An episode, the name of its store, the Q-function that scored it, and what made its agent's in its run."""

    store: str
    run: RunRecord
    episode: EpisodeSummary
    checkpoint: str | None
    origin: RowSource

    def value(self, key: str) -> str:
        """Of one of `KEYS`, or of a setting."""
        e = self.episode
        known = {"store": self.store, "run": e.run, "agent": e.agent, "suite": e.key.suite, "split": e.split}
        if key in known:
            return known[key]
        if key == "N":
            return _words(self.origin.n)
        return _words(proposer_model(self.run.config) if key == "model" else setting(self.run.config, key))


class SettingRow(Performance):
    """The episodes that share these values; `agent` is the row's name, its values with commas."""

    keys: tuple[str, ...]  # what the rows are by
    values: tuple[str, ...]  # one per key
    origin: RowSource


def by_setting(stores: Mapping[str, Store], keys: Sequence[str], selection: Selection = EVERYTHING) -> list[SettingRow]:
    """A row for each combination of the values of `keys`, in the order of stores, runs and agents. Agents are never
    averaged over, nor are Q-functions: where these keys put several into a row, `agent` is one more key, and several
    Q-functions of one agent have rows of their own, `best-of-q @3fa2c1`.

    A key is one of `KEYS` or a dotted setting of the run's configuration (`epsilon`, `model.path`, `suite.env`); where
    a run has no such setting its value is `–`. With agents selected, rows come in their order within a run. Differences
    are to the row of the baseline's name (its values, with commas); None: to the first of prompting, else to the first.

    DataError when nothing is finished with a verdict, or there is no such run, setting or baseline.
    """
    every = [(name, store, run) for name, store in stores.items() for run in store.runs()]
    known_runs = list(dict.fromkeys(run.name for _, _, run in every))
    if missing := [run for run in selection.runs or () if run not in known_runs]:
        raise DataError(f"there is no run {missing[0]!r}: there are {', '.join(known_runs) or 'none'}")
    for key in keys:
        if key not in KEYS and all(setting(run.config, key) is None for _, _, run in every):
            known = sorted({name for _, _, run in every for name in _names(dict(run.config))})
            raise DataError(f"no run has a setting {key!r}: there are {', '.join((*KEYS, *known))}")
    chosen = [one for one in every if selection.runs is None or one[2].name in selection.runs]
    played = [one for name, store, run in chosen for one in _load_decisions(name, store, run, selection)]
    if not played:
        raise DataError(
            f"no episode is finished with a verdict in {', '.join(stores) or 'no store'}: run `bestofq eval` first, or "
            "`bestofq judge`"
        )
    found = group_by(played, lambda one: tuple(map(one.value, keys)))
    if "agent" not in keys and any(len({(e.episode.agent, e.checkpoint) for e in row}) > 1 for row in found.values()):
        keys = (*keys, "agent")
        found = group_by(played, lambda one: tuple(map(one.value, keys)))
    # the episodes of each Q-function apart; where a row has several, the value of `agent` names them
    apart: dict[tuple[str, ...], list[LoadedDecisions]] = {}
    for values, row in found.items():
        by_q = group_by(row, lambda one: one.checkpoint)
        for checkpoint, suffix in suffixes(by_q).items():
            named = (v + suffix if key == "agent" else v for key, v in zip(keys, values, strict=True))
            apart[tuple(named)] = by_q[checkpoint]
    attempts = {values: _attempts(row) for values, row in apart.items()}
    names = {", ".join(values): values for values in apart}
    baseline = selection.baseline
    if baseline is not None and baseline not in names:
        raise DataError(f"there is no row {baseline!r} to compare with: there are {'; '.join(names)}")
    usual = (values for values, row in apart.items() if all(one.episode.agent == BASELINE for one in row))
    first = next(usual, next(iter(apart))) if baseline is None else names[baseline]
    return [
        SettingRow(
            agent=", ".join(values),
            **performance(attempts[values], () if values == first else attempts[first]),
            keys=tuple(keys),
            values=values,
            origin=together([*{(one.store, one.run.name, one.episode.agent): one.origin for one in row}.values()]),
        )
        for values, row in apart.items()
    ]


def _load_decisions(name: str, store: Store, run: RunRecord, selection: Selection) -> Iterator[LoadedDecisions]:
    """What is decided of a run of the store of this name, agent by agent."""
    episodes = store.summaries(run=run.name, suite=selection.suite, split=selection.split)
    part_of = parts_of(store, [run.name])
    for agent in selection.agents or sorted({e.agent for e in episodes}):
        theirs = [e for e in episodes if e.agent == agent and e.decided]
        made = group_by(theirs, lambda e: part_of(e).checkpoint)
        origins = {checkpoint: origin(store, {run.name: run}, some) for checkpoint, some in made.items()}
        for episode in theirs:
            checkpoint = part_of(episode).checkpoint
            yield LoadedDecisions(name, run, episode, checkpoint, origins[checkpoint])


def setting_table(rows: Sequence[SettingRow]) -> Table:
    """The rows, one or more, as a table."""
    keys = rows[0].keys
    return Table(
        name="by-" + "-".join(map(in_file_name, keys)),
        title=f"Success by {', '.join(keys)}",
        columns=(*columns(*keys), *PERFORMANCE),
        rows=tuple(Row(cells=(*row.values, *row.cells()), origin=row.origin) for row in rows),
        notes=(
            "95 % bootstrap over tasks; ±: standard error over runs. Difference: to the row without one, paired by "
            "task.",
        ),
    )


def in_file_name(key: str) -> str:
    return key.replace(".", "-").replace("/", "-")


def _attempts(played: Sequence[LoadedDecisions]) -> list[Attempt]:
    """As statistics need them, runs of two stores apart."""
    return [a._replace(run=(one.store, a.run)) for one in played for a in attempts_of([one.episode])]


def _words(value: JsonValue) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _names(value: JsonValue, before: str = "") -> Iterator[str]:
    """Of all settings in this one, dotted."""
    if not isinstance(value, dict):
        yield before
        return
    for key, inner in value.items():
        yield from _names(inner, f"{before}.{key}" if before else key)
