"""Which episodes make one row of a table: an agent's passes over the same tasks with the same settings, never others.

Runs of one agent may differ in split, model, Q-function or tasks, and a mean over them says nothing. So they are rows
of their own, told apart by their runs' names; only runs that differ in nothing but their seed are passes of one row.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from bestofq.core.errors import DataError
from bestofq.store.configuration import AGENTS, SEARCHES
from bestofq.store.records import EpisodeSummary, RunRecord, Status
from bestofq.store.store import Store

HELD_OUT = ("test", "dev", "train")  # the first of these splits that is there is the table's own
APART = (
    "In brackets: the run. An agent's runs on unlike tasks, or with unlike settings, model or Q-function, are rows of "
    "their own."
)
_LOST: tuple[Status, ...] = ("cut", "interrupted")
Part = tuple[str, str, str]
"""What one agent did in one run on one split."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of some finished episodes: each part's row, by name."""

    names: Mapping[Part, str]

    def named(self, episodes: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """The episodes with their row's name for their agent's; those of no row keep their agent's."""
        return [replace(e, agent=self.names.get(_part(e), e.agent)) for e in episodes]

    def of(self, asked: str) -> list[str]:
        """The row of this name, where there is one, else all rows of the agent of this name."""
        if asked in self.names.values():
            return [asked]
        return list(dict.fromkeys(name for (_, agent, _), name in self.names.items() if agent == asked))

    def one(self, asked: str) -> str:
        """The row to compare with. DataError where there are several."""
        found = self.of(asked) or [asked]
        if len(found) > 1:
            raise DataError(
                f"agent {asked!r} has {len(found)} rows, of unlike runs: {'; '.join(found)}. "
                f"Give --baseline '{found[0]}', or choose with --run and --split"
            )
        return found[0]

    def agents(self, names: Iterable[str]) -> list[str]:
        """The agents of the rows of these names."""
        wanted = set(names)
        return list(dict.fromkeys(agent for (_, agent, _), name in self.names.items() if name in wanted))

    def part_of(self, name: str) -> bool:
        """Whether it is one of several rows of its agent, or of another split than the table's own."""
        return any(name == other != agent for (_, agent, _), other in self.names.items())

    def main(self, name: str) -> bool:
        """Whether it is a row of the table's own split."""
        splits = {split for (_, _, split), other in self.names.items() if other == name}
        return splits == {_leading(split for _, _, split in self.names)}


def read_rows(
    store: Store, *, runs: Sequence[str] | None = None, suite: str | None = None, split: str | None = None
) -> tuple[Rows, list[EpisodeSummary]]:
    """The rows of what is finished in `runs` (None: all), whichever of them are shown, and its episodes `named`."""
    chosen = [run.name for run in store.runs()] if runs is None else list(dict.fromkeys(runs))
    finished = [e for run in chosen for e in store.summaries(run=run, suite=suite, split=split)]
    rows = rows_of(store, finished)
    return rows, rows.named(finished)


def rows_of(store: Store, finished: Iterable[EpisodeSummary]) -> Rows:
    """The rows of these episodes.

    An agent's only row on the table's own split has the agent's name; any other has its runs' names behind it too, and
    its split where that is another.
    """
    parts: dict[Part, list[EpisodeSummary]] = {}
    for episode in finished:
        parts.setdefault(_part(episode), []).append(episode)
    runs = {run.name: run for run in store.runs()}
    rows: dict[Hashable, list[Part]] = {}
    for part, episodes in parts.items():
        rows.setdefault(_alike(store, runs[part[0]], episodes), []).append(part)
    own = _leading(split for _, _, split in parts)
    held = [row[0][1] for row in rows.values() if row[0][2] == own]
    return Rows(names={part: _name(row, own, held) for row in rows.values() for part in row})


def _part(episode: EpisodeSummary) -> Part:
    return episode.run, episode.agent, episode.split


def _leading(splits: Iterable[str]) -> str | None:
    there = sorted(
        set(splits), key=lambda split: (HELD_OUT.index(split) if split in HELD_OUT else len(HELD_OUT), split)
    )
    return there[0] if there else None


def _alike(store: Store, run: RunRecord, episodes: Sequence[EpisodeSummary]) -> Hashable:
    """What passes of one row share: agent, split, tasks, settings but the seed, and the Q-function that scored.

    A task begun is one of the pass's, though the infrastructure may have cut its episode.
    """
    first = episodes[0]
    settings: dict[str, JsonValue] = {name: value for name, value in run.config.items() if name != "seed"}
    for part in (AGENTS, SEARCHES):
        if isinstance(owned := settings.pop(part, None), dict) and first.agent in owned:
            settings[part] = owned[first.agent]  # those of others change nothing for this one
    steps = store.episode(first.id).steps
    checkpoint = next((step.decision.checkpoint for step in steps), None)
    suites = {episode.slot.suite for episode in episodes}
    lost = (e for status in _LOST for e in store.summaries(run=run.name, agent=first.agent, status=status))
    tasks = frozenset(e.slot[:2] for e in (*episodes, *lost) if e.split == first.split and e.slot.suite in suites)
    return first.agent, first.split, tasks, json.dumps(settings, sort_keys=True), checkpoint


def _name(row: Sequence[Part], own: str | None, held: Sequence[str]) -> str:
    _, agent, split = row[0]
    if split == own and held.count(agent) == 1:
        return agent
    words = [*(run for run, _, _ in row), *([] if split == own else [split])]
    return f"{agent} ({', '.join(words)})"
