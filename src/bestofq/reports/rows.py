"""Which episodes make one row of a table: an agent's passes over the same tasks with the same settings, never others.

Runs of one agent may differ in split, model, Q-function or tasks, and a mean over them says nothing. So they are rows
of their own, named by their Q-functions where those alone differ, else by their runs. Only runs that differ in nothing
but their seed are passes of one row.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.reports.stats import grouped
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


class QFunctions:
    """The Q-functions that scored the episodes of some runs, by their checkpoints' names."""

    def __init__(self, store: Store, runs: Iterable[str]) -> None:
        self._by_episode: dict[str, str] = {}
        self._by_agent: dict[tuple[str, str], set[str]] = defaultdict(set)
        for run in dict.fromkeys(runs):
            for episode, agent, checkpoint in store.scorers(run):
                self._by_episode[episode] = checkpoint
                self._by_agent[run, agent].add(checkpoint)

    def of(self, episode: EpisodeSummary) -> str | None:
        """The one that its first step names, else the only one of its agent in its run; None: none scored it."""
        agents = self._by_agent.get((episode.run, episode.agent), set())
        only = next(iter(agents)) if len(agents) == 1 else None
        return self._by_episode.get(episode.id, only)


class Part(NamedTuple):
    """What one agent did in one run on one split with one Q-function."""

    run: str
    agent: str
    split: str
    checkpoint: str | None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of some finished episodes: each part's row, by name."""

    names: Mapping[Part, str]
    q_functions: QFunctions

    def named(self, episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """The episodes with their row's name for their agent's; those of no row keep their agent's."""
        return [replace(e, agent=self.names.get(_part(e, self.q_functions), e.agent)) for e in episodes]

    def of(self, name: str) -> list[str]:
        """The row of this name, where there is one, else all rows of the agent of this name."""
        if name in self.names.values():
            return [name]
        return list(dict.fromkeys(row for part, row in self.names.items() if part.agent == name))

    def one(self, name: str) -> str:
        """The row to compare with. DataError where there are several."""
        found = self.of(name) or [name]
        if len(found) > 1:
            raise DataError(
                f"agent {name!r} has {len(found)} rows, of unlike runs: {'; '.join(found)}. "
                f"Give --baseline '{found[0]}', or choose with --run and --split"
            )
        return found[0]

    def agents(self, names: Iterable[str]) -> list[str]:
        """The agents of the rows of these names."""
        wanted = set(names)
        return list(dict.fromkeys(part.agent for part, name in self.names.items() if name in wanted))

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
        return splits == {_leading(part.split for part in self.names)}


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
        return known if self.runs is None else list(dict.fromkeys(self.runs))

    def summaries(self, store: Store, *, status: Status = "finished") -> list[EpisodeSummary]:
        """Its episodes, those of all agents."""
        some = (
            store.summaries(run=run, suite=self.suite, split=self.split, status=status) for run in self.in_runs(store)
        )
        return [episode for of_run in some for episode in of_run]


EVERYTHING = Selection()


def read_rows(store: Store, selection: Selection = EVERYTHING) -> tuple[Rows, list[EpisodeSummary]]:
    """The rows of what is finished in the selection's runs, whichever agents are shown, and its episodes `named`."""
    finished = selection.summaries(store)
    rows = rows_of(store, finished)
    return rows, rows.named(finished)


def rows_of(store: Store, finished: Iterable[EpisodeSummary]) -> Rows:
    """The rows of these episodes.

    An agent's only row on the table's own split has the agent's name. Several there have their Q-functions' hashes
    behind it, and where those do not tell them apart their runs' names; a row of another split has both its runs' names
    and its split.
    """
    episodes = list(finished)
    q_functions = QFunctions(store, (episode.run for episode in episodes))
    parts = grouped(episodes, lambda episode: _part(episode, q_functions))
    runs = {run.name: run for run in store.runs()}
    rows = grouped(parts, lambda part: _alike(store, runs[part.run], part, parts[part]))
    own = _leading(part.split for part in parts)
    groups = grouped(rows.values(), lambda row: (row[0].agent, row[0].split))
    names = {part: name for group in groups.values() for part, name in _names(group, own)}
    return Rows(names={part: names[part] for row in rows.values() for part in row}, q_functions=q_functions)


def _part(episode: EpisodeSummary, q_functions: QFunctions) -> Part:
    return Part(episode.run, episode.agent, episode.split, q_functions.of(episode))


def _leading(splits: Iterable[str]) -> str | None:
    there = sorted(
        set(splits), key=lambda split: (HELD_OUT.index(split) if split in HELD_OUT else len(HELD_OUT), split)
    )
    return there[0] if there else None


def _alike(store: Store, run: RunRecord, part: Part, episodes: Sequence[EpisodeSummary]) -> Hashable:
    """What passes of one row share: agent, split, tasks, settings but the seed, and the Q-function that scored.

    A task begun is one of the pass's, though the infrastructure may have cut its episode.
    """
    settings: dict[str, JsonValue] = {name: value for name, value in run.config.items() if name != "seed"}
    for owner in (AGENTS, SEARCHES):
        if isinstance(owned := settings.pop(owner, None), dict) and part.agent in owned:
            settings[owner] = owned[part.agent]  # those of others change nothing for this one
    suites = {episode.key.suite for episode in episodes}
    lost = (e for status in _LOST for e in store.summaries(run=run.name, agent=part.agent, status=status))
    tasks = frozenset(e.key[:2] for e in (*episodes, *lost) if e.split == part.split and e.key.suite in suites)
    return part.agent, part.split, tasks, json.dumps(settings, sort_keys=True), part.checkpoint


def _names(group: Sequence[Sequence[Part]], own: str | None) -> Iterator[tuple[Part, str]]:
    """The names of all rows of one agent on one split."""
    held = Counter(row[0].checkpoint for row in group)
    behind = suffixes(held)
    for row in group:
        first = row[0]
        agent = f"{first.agent}{behind[first.checkpoint]}"
        words = [*dict.fromkeys(part.run for part in row), *([] if first.split == own else [first.split])]
        alone = first.split == own and held[first.checkpoint] == 1
        name = agent if alone else f"{agent} ({', '.join(words)})"
        for part in row:
            yield part, name


def suffixes(checkpoints: Collection[str | None]) -> dict[str | None, str]:
    """What to put behind an agent's name for each of its Q-functions: ` @3fa2c1`, nothing where there is only one."""
    if len(checkpoints) < 2:
        return dict.fromkeys(checkpoints, "")
    hashes = {name: "none" if name is None else name.rpartition("-")[2] for name in checkpoints}
    digits = DIGITS
    while digits < max(map(len, hashes.values())) and len({text[:digits] for text in hashes.values()}) < len(hashes):
        digits += 1
    return {name: f" @{text[:digits]}" for name, text in hashes.items()}
