"""Which episodes make one row of a table: an agent's passes over the same tasks with the same settings, never others.

Runs of one agent may differ in split, model, Q-function or tasks, and a mean over them means nothing. They are separate
rows, named by their Q-functions if only these differ, else by their runs. Only runs that differ in nothing but their
seed are passes of one row.
"""

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.reports.stats import distinct, group_by
from bestofq.store.configuration import AGENTS
from bestofq.store.records import EpisodeSummary, RunRecord
from bestofq.store.schema import Status
from bestofq.store.tally import Tally

if TYPE_CHECKING:
    from bestofq.store.store import Store

DIGITS = 6  # of a Q-function's hash that are shown, unless more are needed to distinguish two
BASELINE = "prompting"
HELD_OUT = ("test", "dev", "train")  # the first of these splits that has episodes is the table's own


class RowPart(NamedTuple):
    """What one agent did in one run on one split with one Q-function."""

    run: str
    agent: str
    split: str
    checkpoint: str | None  # None: none scored
    tallies: Sequence[Tally]  # what it finished, and all that the agent did not finish in the run on the split


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which episodes a report is about (None: all), and the agent or row that the others are compared with."""

    runs: Sequence[str] | None = None
    agents: Sequence[str] | None = None
    split: str | None = None
    baseline: str | None = None

    def in_runs(self, store: "Store") -> list[str]:
        """The names of its runs. DataError on one that the store does not have."""
        known = [run.name for run in store.runs()]
        if missing := [run for run in self.runs or () if run not in known]:
            raise DataError(f"there is no run {missing[0]!r} in the store: it has {', '.join(known) or 'none'}")
        return known if self.runs is None else [*distinct(self.runs)]

    def tallies(self, store: "Store") -> list[Tally]:
        """Its ended episodes, of all agents. One without a step belongs to its agent's only Q-function in its run."""
        runs = self.in_runs(store)
        found = sorted(store.tallies(runs, split=self.split), key=lambda t: runs.index(t.run))
        several = group_by({(t.run, t.agent, t.checkpoint) for t in found if t.checkpoint}, lambda known: known[:2])
        only = {key: known[0][2] for key, known in several.items() if len(known) == 1}
        return [t._replace(checkpoint=t.checkpoint or only.get((t.run, t.agent))) for t in found]

    def summaries(self, store: "Store", *, status: Status = "finished") -> list[EpisodeSummary]:
        runs = self.in_runs(store)
        return [e for run in runs for e in store.summaries(run=run, split=self.split, status=status)]


EVERYTHING = Selection()


class AgentRow(NamedTuple):
    """The parts of one row, and its name."""

    name: str
    parts: Sequence[RowPart]
    is_main: bool  # of the table's own split

    @property
    def agent(self) -> str:
        return self.parts[0].agent

    @property
    def tallies(self) -> list[Tally]:
        return [tally for part in self.parts for tally in part.tallies]


class Rows(dict[str, AgentRow]):
    """The rows of some ended episodes, by name."""

    def name_rows(self, episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """The episodes with their row's name instead of their agent's; those of no row keep their agent's."""
        names = {part[:4]: row.name for row in self.values() for part in row.parts}
        only = {part[:3]: name for part, name in names.items()}  # of episodes without a step
        played = ((e, (e.run, e.agent, e.split, e.checkpoint)) for e in episodes)
        return [e._replace(agent=names.get(part) or only.get(part[:3], e.agent)) for e, part in played]

    def of(self, *names: str) -> list[str]:
        """The rows of these names. If there is none of a name, all rows of the agent of this name."""
        found = [[name] if name in self else [r.name for r in self.values() if r.agent == name] for name in names]
        return [*distinct(chain.from_iterable(found))]

    def find_one(self, name: str | None) -> str | None:
        """The row to compare with. DataError if there are several."""
        found = [] if name is None else self.of(name)
        if len(found) > 1:
            raise DataError(
                f"agent {name!r} has {len(found)} rows, because its runs differ: {'; '.join(found)}. "
                f"Give --baseline '{found[0]}', or choose with --run and --split"
            )
        return found[0] if found else name

    def baseline(self) -> str | None:
        """What others are compared with by default: prompting, else the first; None: no row."""
        return min(((row.agent != BASELINE, row.name) for row in self.values() if row.is_main), default=(0, None))[1]


def read_rows(store: "Store", selection: Selection = EVERYTHING) -> Rows:
    """The rows of the selection's finished episodes, whichever agents are shown.

    An agent's only row on the table's own split has the agent's name. If it has several there, the hashes of their
    Q-functions follow the name; if these are alike, the names of their runs. A row of another split has the names of
    both its runs and its split.
    """
    parts = [*_split_parts(selection.tallies(store))]
    main = min((part.split for part in parts), key=lambda split: ((*HELD_OUT, split).index(split), split), default=None)
    runs = {run.name: run for run in store.runs()}
    alike = group_by(parts, lambda part: _row_identity(runs[part.run], part)).values()
    rows = Rows()
    for (agent, split), of_agent in group_by(alike, lambda row: (row[0].agent, row[0].split)).items():
        counts = Counter(row[0].checkpoint for row in of_agent)
        endings = suffixes(counts)
        for row in of_agent:
            name = agent + endings[row[0].checkpoint]
            if split != main or counts[row[0].checkpoint] > 1:
                words = [*distinct(part.run for part in row), *([] if split == main else [split])]
                name += f" ({', '.join(words)})"
            rows[name] = AgentRow(name, row, is_main=split == main)
    return rows


def _split_parts(tallies: Iterable[Tally]) -> Iterator[RowPart]:
    for played, some in group_by(tallies, lambda t: (t.run, t.agent, t.split)).items():
        by_status = group_by(some, lambda t: t.status == "finished")
        for checkpoint, done in group_by(by_status.get(True, ()), lambda t: t.checkpoint).items():
            yield RowPart(*played, checkpoint, [*done, *by_status.get(False, ())])


def _row_identity(run: RunRecord, part: RowPart) -> Hashable:
    """What passes of one row share: agent, split, tasks, settings except the seed, and the Q-function that scored.

    A task that was begun belongs to the pass, even if the infrastructure cut its episode.
    """
    settings: dict[str, JsonValue] = {name: value for name, value in run.config.items() if name != "seed"}
    if isinstance(owned := settings.pop(AGENTS, None), dict) and part.agent in owned:
        settings[AGENTS] = owned[part.agent]  # those of other agents change nothing for this one
    suites = {t.suite for t in part.tallies if t.status == "finished"}
    tasks = {(t.suite, task) for t in part.tallies if t.suite in suites for task in t.tasks}
    return part.agent, part.split, frozenset(tasks), json.dumps(settings, sort_keys=True), part.checkpoint


def suffixes(checkpoints: Collection[str | None]) -> dict[str | None, str]:
    """What follows an agent's name for each of its Q-functions: ` @3fa2c1`, nothing if there is only one."""
    if len(checkpoints) < 2:
        return dict.fromkeys(checkpoints, "")
    hashes = {name: "none" if name is None else name.rpartition("-")[2] for name in checkpoints}
    digits = DIGITS
    while digits < max(map(len, hashes.values())) and len({text[:digits] for text in hashes.values()}) < len(hashes):
        digits += 1
    return {name: f" @{text[:digits]}" for name, text in hashes.items()}
