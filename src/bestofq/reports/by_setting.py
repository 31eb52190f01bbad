"""One table for every ablation: success and steps by a setting of the runs, over one store or several.

Best-of-Q's Table 3 (by store, one a picker, and `model`), Table 4 (by `N` and by store: which Q-function it used),
Tables 10 to 12 (by run or store) and Agent Q's Figs. 3 and 6 (by `agent`, one store an approach) are this table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.errors import DataError, InputError
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.origin import origin, proposing, setting, together
from bestofq.reports.rows import BASELINE, QFunctions, suffixes
from bestofq.reports.stats import Attempt, Difference, Estimate, Interval, Measure, attempts_of, grouped
from bestofq.reports.success import PERFORMANCE, performance_cells
from bestofq.reports.table import Origin, Row, Table, columns
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

KEYS = ("store", "run", "agent", "suite", "split", "model", "N")
"""What is no setting of a run, and can be grouped by all the same. model: who proposes, an endpoint's or a local one;
N: candidates asked for at a step."""


class Played(NamedTuple):
    """An episode, the name of its store, and the Q-function that scored it."""

    store: str
    episode: EpisodeSummary
    checkpoint: str | None

    @property
    def player(self) -> tuple[str, str | None]:
        """Its agent, with the Q-function."""
        return self.episode.agent, self.checkpoint

    @property
    def source(self) -> tuple[str, str, str, str | None]:
        """What it was played in, and by whom."""
        return self.store, self.episode.run, *self.player


class SettingRow(Noun):
    """The episodes that share these values."""

    keys: tuple[str, ...]  # what the rows are by
    values: tuple[str, ...]  # one per key
    success: Estimate
    interval: Interval  # over tasks
    steps_for_success: Estimate | None
    steps_interval: Interval | None  # over tasks
    tasks: int
    episodes: int
    difference: Difference | None  # to the baseline, paired by task; None: itself, or no task in common
    origin: Origin

    @property
    def name(self) -> str:
        return ", ".join(self.values)


def by_setting(
    stores: Mapping[str, Store],
    keys: Sequence[str],
    *,
    runs: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    split: str | None = None,
    baseline: str | None = None,
) -> list[SettingRow]:
    """A row for each combination of the values of `keys`, in the order of stores, runs and agents. Agents are never
    averaged over, nor are Q-functions: where these keys put several into a row, `agent` is one more key, and several
    Q-functions of one agent have rows of their own, `best-of-q @3fa2c1`.

    A key is one of `KEYS` or a dotted setting of the run's configuration (`epsilon`, `model.path`, `suite.env`); where
    a run has no such setting its value is `–`. With `agents`, rows come in their order within a run. Differences are to
    the row of the name `baseline` (its values, with commas); None: to the first of prompting, else to the first.

    DataError when nothing is finished with a verdict, or there is no such run, setting or baseline.
    """
    configs = {(name, run.name): run.config for name, store in stores.items() for run in store.runs()}
    known_runs = list(dict.fromkeys(run for _, run in configs))
    if missing := [run for run in runs or () if run not in known_runs]:
        raise DataError(f"there is no run {missing[0]!r}: there are {', '.join(known_runs) or 'none'}")
    for key in keys:
        if key not in KEYS and all(setting(config, key) is None for config in configs.values()):
            raise DataError(f"no run has a setting {key!r}: there are {', '.join((*KEYS, *_known(configs.values())))}")
    made: dict[tuple[str, str, str, str | None], Origin] = {}
    played: list[Played] = []
    for name, store in stores.items():
        for run in store.runs():
            if runs is not None and run.name not in runs:
                continue
            episodes = [e for e in store.summaries(run=run.name, split=split) if agents is None or e.agent in agents]
            q_functions = QFunctions(store, [run.name])
            for agent in agents or sorted({e.agent for e in episodes}):
                theirs = [Played(name, e, q_functions.of(e)) for e in episodes if e.agent == agent and e.decided]
                for checkpoint in dict.fromkeys(one.checkpoint for one in theirs):
                    same = [one.episode for one in theirs if one.checkpoint == checkpoint]
                    made[name, run.name, agent, checkpoint] = origin(store, {run.name: run}, same)
                played += theirs
    if not played:
        raise DataError(
            f"no episode is finished with a verdict in {', '.join(stores) or 'no store'}: run `bestofq eval` first, or "
            "`bestofq judge`"
        )

    def value(key: str, one: Played) -> str:
        name, e = one.store, one.episode
        if key == "N":
            return _words(made[one.source].n)
        if key == "model":
            return _words(proposing(configs[name, e.run]))
        known = {"store": name, "run": e.run, "agent": e.agent, "suite": e.key.suite, "split": e.split}
        return known[key] if key in known else _words(setting(configs[name, e.run], key))

    found = grouped(played, lambda one: tuple(value(key, one) for key in keys))
    if "agent" not in keys and any(len({one.player for one in theirs}) > 1 for theirs in found.values()):
        keys = (*keys, "agent")
        found = grouped(played, lambda one: tuple(value(key, one) for key in keys))
    found = {
        values: some for known, theirs in found.items() for values, some in _q_functions_apart(known, keys, theirs)
    }
    attempts = {values: _attempts(theirs) for values, theirs in found.items()}
    names = {", ".join(values): values for values in attempts}
    if baseline is not None and baseline not in names:
        raise DataError(f"there is no row {baseline!r} to compare with: there are {'; '.join(names)}")
    usual = (values for values, theirs in found.items() if all(one.episode.agent == BASELINE for one in theirs))
    first = next(usual, next(iter(attempts))) if baseline is None else names[baseline]
    return [
        SettingRow(
            keys=tuple(keys),
            values=values,
            **stats.performance(tried, () if values == first else attempts[first]),
            origin=together([made[source] for source in dict.fromkeys(one.source for one in found[values])]),
        )
        for values, tried in attempts.items()
    ]


def _q_functions_apart(
    values: tuple[str, ...], keys: Sequence[str], played: Sequence[Played]
) -> Iterable[tuple[tuple[str, ...], list[Played]]]:
    """The episodes of a row, those of each Q-function apart. Where there are several, the value of `agent` names it."""
    behind = suffixes(dict.fromkeys(one.checkpoint for one in played))
    for checkpoint, suffix in behind.items():
        named = tuple(v + suffix if key == "agent" else v for key, v in zip(keys, values, strict=True))
        yield named, [one for one in played if one.checkpoint == checkpoint]


def setting_table(rows: Sequence[SettingRow]) -> Table:
    """The rows, one or more, as a table."""
    keys = rows[0].keys
    return Table(
        name="by-" + "-".join(map(in_file_name, keys)),
        title=f"Success by {', '.join(keys)}",
        columns=(*columns(*keys), *PERFORMANCE),
        rows=tuple(Row(cells=(*row.values, *performance_cells(row)), origin=row.origin) for row in rows),
        notes=(
            "95 % bootstrap over tasks; ±: standard error over runs. Difference: to the row without one, paired by "
            "task.",
        ),
    )


def grid_table(rows: Sequence[SettingRow], down: str, across: str) -> Table:
    """The rows over the keys `down` and `across` as a grid (Tables 3, 4 and 11), in the order in which their values
    first come: for each value down its success, steps and difference, a column a value across. InputError where rows
    have other than two values."""
    if any(len(row.values) != 2 for row in rows):
        raise InputError(f"a grid is of two settings: rows of {len(rows[0].values)} are given")
    cells: dict[tuple[str, ...], SettingRow] = {row.values: row for row in rows}
    heads = list(dict.fromkeys(row.values[1] for row in rows))
    numbers: dict[str, Callable[[SettingRow], Measure | Difference | None]] = {
        "success %": lambda row: _measure(row.success, row.interval),
        "steps for success": lambda row: _measure(row.steps_for_success, row.steps_interval),
        "difference %": lambda row: row.difference,
    }
    found = []
    for value in dict.fromkeys(row.values[0] for row in rows):
        here = [cells.get((value, head)) for head in heads]
        origin = together([row.origin for row in here if row])
        for name, number in numbers.items():
            shown = [row and number(row) for row in here]
            if any(cell is not None for cell in shown):
                percent, signed = name.endswith(" %"), name.startswith("difference")
                found.append(Row(cells=(value, name, *shown), percent=percent, signed=signed, origin=origin))
    return Table(
        name=f"grid-{in_file_name(down)}-{in_file_name(across)}",
        title=f"Success by {down} (down) and {across} (across)",
        columns=columns(down, "number", *(f"{across} {head}" for head in heads)),
        rows=tuple(found),
        notes=(
            "Mean ± standard error over runs, in brackets 95 % bootstrap over tasks; –: no such episode.",
            "Difference: to the cell without one, paired by task.",
        ),
    )


def _measure(estimate: Estimate | None, interval: Interval | None) -> Measure | None:
    return None if estimate is None else Measure(value=estimate.mean, error=estimate.error, interval=interval)


def in_file_name(key: str) -> str:
    return key.replace(".", "-").replace("/", "-")


def _attempts(played: Sequence[Played]) -> list[Attempt]:
    """As statistics need them, runs of two stores apart."""
    return [a._replace(run=(one.store, a.run)) for one in played for a in attempts_of([one.episode])]


def _words(value: JsonValue) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _known(configs: Iterable[Mapping[str, JsonValue]]) -> list[str]:
    """The names of all settings, dotted."""

    def names(value: JsonValue, before: str) -> list[str]:
        if not isinstance(value, dict):
            return [before]
        return [n for key, inner in value.items() for n in names(inner, f"{before}.{key}" if before else key)]

    return sorted({name for config in configs for name in names(dict(config), "")})
