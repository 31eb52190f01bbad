"""Which episodes make one row of a table: an agent's passes over the same tasks with the same settings, never others.

Runs of one agent may differ in split, model, Q-function or tasks, and a mean over them says nothing. So they are rows
of their own, named by their Q-functions where those alone differ, else by their runs. Only runs that differ in nothing
but their seed are passes of one row.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.reports.stats import distinct, group_by
from bestofq.store.configuration import AGENTS, SEARCHES
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.schema import Status
from bestofq.store.store import Store

DIGITS = 6  # of a Q-function's hash that are shown, where so many tell it from the others
BASELINE = "prompting"
HELD_OUT = ("test", "dev", "train")  # the first of these splits that is there is the table's own
APART = (
    "In brackets: the run; behind @: the Q-function's hash. An agent's runs on unlike tasks, or with unlike settings, "
    "model or Q-function, are rows of their own."
)
_LOST: tuple[Status, ...] = ("cut", "interrupted")


class RowPart(NamedTuple):
    """What one agent did in one run on one split with one Q-function."""

    run: str
    agent: str
    split: str
    checkpoint: str | None  # None: none scored


def parts_of(store: Store, runs: Collection[str]) -> Callable[[EpisodeSummary], RowPart]:
    """The part that an episode of these runs is of: its Q-function is what its first step names, else the agent's only
    one in its run."""
    several = group_by(store.scorers(runs), lambda scorer: scorer[:2])
    only = {player: found[0][2] for player, found in several.items() if len(found) == 1}
    return lambda e: RowPart(e.run, e.agent, e.split, e.checkpoint or only.get((e.run, e.agent)))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of some finished episodes: each part's row, by name."""

    names: Mapping[RowPart, str]
    part: Callable[[EpisodeSummary], RowPart]  # that an episode is of

    def name_rows(self, episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """The episodes with their row's name for their agent's; those of no row keep their agent's."""
        named = ((e, self.names.get(self.part(e), e.agent)) for e in episodes)
        return [e if name == e.agent else e._replace(agent=name) for e, name in named]

    def of(self, *names: str) -> list[str]:
        """The rows of these names; where there is none of a name, all rows of the agent of this name."""
        found = []
        for name in names:
            alone = [name] if name in self.names.values() else None
            found += alone or [row for part, row in self.names.items() if part.agent == name]
        return [*distinct(found)]

    def one(self, name: str | None) -> str | None:
        """The row to compare with. DataError where there are several."""
        found = [] if name is None else self.of(name)
        if len(found) > 1:
            raise DataError(
                f"agent {name!r} has {len(found)} rows, of unlike runs: {'; '.join(found)}. "
                f"Give --baseline '{found[0]}', or choose with --run and --split"
            )
        return found[0] if found else name

    def agents(self, names: Iterable[str]) -> list[str]:
        """The agents of the rows of these names."""
        wanted = set(names)
        return [*distinct(part.agent for part, name in self.names.items() if name in wanted)]

    def baseline(self) -> str | None:
        """What others are compared with where nothing else is asked for: prompting, else the first; None: no row."""
        own = [(part.agent != BASELINE, name) for part, name in self.names.items() if self.main(name)]
        return min(own)[1] if own else None

    def part_of(self, name: str) -> bool:
        """Whether it is one of several rows of its agent, or of another split than the table's own."""
        return any(name == other != part.agent for part, other in self.names.items())

    def main(self, name: str) -> bool:
        """Whether it is a row of the table's own split."""
        splits = {part.split for part, other in self.names.items() if other == name}
        return splits == {_main_split(part.split for part in self.names)}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which episodes a report is about (None: all), and the agent or row that the others are compared with."""

    runs: Sequence[str] | None = None
    agents: Sequence[str] | None = None
    suite: str | None = None
    split: str | None = None
    baseline: str | None = None

    def in_runs(self, store: Store) -> list[str]:
        """The names of its runs. DataError on one that the store does not have."""
        known = [run.name for run in store.runs()]
        if missing := [run for run in self.runs or () if run not in known]:
            raise DataError(f"there is no run {missing[0]!r} in the store: it has {', '.join(known) or 'none'}")
        return known if self.runs is None else [*distinct(self.runs)]

    def summaries(self, store: Store, *, status: Status = "finished") -> list[EpisodeSummary]:
        """Its episodes, those of all agents."""
        which = partial(store.summaries, suite=self.suite, split=self.split, status=status)
        return [episode for run in self.in_runs(store) for episode in which(run=run)]


EVERYTHING = Selection()


def read_rows(store: Store, selection: Selection = EVERYTHING) -> tuple[Rows, list[EpisodeSummary]]:
    """The rows of what is finished in the selection's runs, whichever agents are shown, and its episodes `named`.

    An agent's only row on the table's own split has the agent's name. Several there have their Q-functions' hashes
    behind it, and where those do not tell them apart their runs' names; a row of another split has both its runs' names
    and its split.
    """
    finished = selection.summaries(store)
    part_of = parts_of(store, selection.in_runs(store))
    parts = group_by(finished, part_of)
    runs = {run.name: run for run in store.runs()}
    by_row = group_by(parts, lambda part: _alike(store, runs[part.run], part, parts[part]))
    own = _main_split(part.split for part in parts)
    groups = group_by(by_row.values(), lambda row: (row[0].agent, row[0].split))
    names = {part: name for group in groups.values() for part, name in _names(group, own)}
    rows = Rows(names={part: names[part] for row in by_row.values() for part in row}, part=part_of)
    return rows, rows.name_rows(finished)


def _main_split(splits: Iterable[str]) -> str | None:
    return min(splits, key=lambda split: ((*HELD_OUT, split).index(split), split), default=None)


def _alike(store: Store, run: RunRecord, part: RowPart, episodes: Sequence[EpisodeSummary]) -> Hashable:
    """What passes of one row share: agent, split, tasks, settings but the seed, and the Q-function that scored. A task
    begun is one of the pass's, though the infrastructure may have cut its episode."""
    settings: dict[str, JsonValue] = {name: value for name, value in run.config.items() if name != "seed"}
    for owner in (AGENTS, SEARCHES):
        if isinstance(owned := settings.pop(owner, None), dict) and part.agent in owned:
            settings[owner] = owned[part.agent]  # those of others change nothing for this one
    suites = {episode.suite for episode in episodes}
    lost = (e for status in _LOST for e in store.summaries(run=run.name, agent=part.agent, status=status))
    tasks = frozenset((e.suite, e.task) for e in (*episodes, *lost) if e.split == part.split and e.suite in suites)
    return part.agent, part.split, tasks, json.dumps(settings, sort_keys=True), part.checkpoint


def _names(group: Sequence[Sequence[RowPart]], own: str | None) -> Iterator[tuple[RowPart, str]]:
    """The names of all rows of one agent on one split."""
    held = Counter(row[0].checkpoint for row in group)
    behind = suffixes(held)
    for row in group:
        _, name, split, checkpoint = row[0]
        name += behind[checkpoint]
        if split != own or held[checkpoint] > 1:
            words = [*distinct(part.run for part in row), *([] if split == own else [split])]
            name += f" ({', '.join(words)})"
        yield from ((part, name) for part in row)


def suffixes(checkpoints: Collection[str | None]) -> dict[str | None, str]:
    """What to put behind an agent's name for each of its Q-functions: ` @3fa2c1`, nothing where there is only one."""
    if len(checkpoints) < 2:
        return dict.fromkeys(checkpoints, "")
    hashes = {name: "none" if name is None else name.rpartition("-")[2] for name in checkpoints}
    digits = DIGITS
    while digits < max(map(len, hashes.values())) and len({text[:digits] for text in hashes.values()}) < len(hashes):
        digits += 1
    return {name: f" @{text[:digits]}" for name, text in hashes.items()}
