"""What the arms of an ablation learn from: stores that are only read."""

import fnmatch
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bestofq.build.context import step_limit_of
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.identity import as_set, differences
from bestofq.core.transitions import Floats
from bestofq.models.cached_embedder import VectorStore
from bestofq.recipes.ablation_config import ArmConfig
from bestofq.recipes.run_config import run_config
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

COLLECTED = ("n_candidates", "model", "suite", "chat")
"""What of a run's configuration the settings of an arm that learns from it must repeat."""


class Sources:
    """Stores by their folders, opened when first asked for. `own` is the ablation's, which keeps new vectors."""

    def __init__(self, own: Store) -> None:
        self._own = own
        self._sources: dict[Path, Store] = {}

    def close(self) -> None:
        for source in self._sources.values():
            source.close()

    def of(self, config: ArmConfig) -> Store:
        """The store of an arm's data. DataError where there is none, or it was collected with other settings."""
        where = config.data.store
        if where is None:
            raise DataError(f"the arm {config.arm.name!r} has nothing to learn from: give it `collect`, or data.store")
        if not (where / "store.sqlite").exists():
            raise DataError(f"there are no episodes in {where}: `{config.data.made_by}` makes them")
        if where not in self._sources:
            self._sources[where] = Store.open(where, read_only=True)
        stored = {run.name: run.config for run in self._sources[where].runs()}
        wanted = run_config(config.learning, "train", step_limit_of(config.learning))
        for run in config.data.runs:
            if run not in stored:
                raise DataError(f"there is no run {run!r} in {where}: it has {', '.join(stored)}")
            found = differences(*({name: one.get(name) for name in COLLECTED} for one in (stored[run], wanted)))
            if found:
                name, before, now = found[0]
                raise DataError(
                    f"run {run!r} of {where} was collected with {name}={as_set(before)}, the arm {config.arm.name!r} "
                    f"says {as_set(now)}: give it `collect`, or the settings of that run"
                )
        return self._sources[where]

    def vectors(self, spec: EmbedSpec) -> "_Layered":
        return _Layered(self._own.vectors(spec), [source.vectors(spec) for source in self._sources.values()])


@dataclass(frozen=True)
class _Layered:
    """Vectors of the ablation's own store and of those it only reads."""

    own: VectorStore
    others: Sequence[VectorStore]

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Floats]:
        found: dict[str, Floats] = {}
        for layer in (*self.others, self.own):
            found |= layer.get_many([key for key in keys if key not in found])
        return found

    def put_many(self, vectors: Mapping[str, Floats]) -> None:
        self.own.put_many(vectors)


def choose(passes: Iterable[Iterable[EpisodeSummary]], config: ArmConfig) -> list[EpisodeSummary]:
    """The episodes that an arm learns from. DataError where there are too few, or one is of no training task."""
    data, name = config.data, config.arm.name
    found = [episode for some in passes for episode in _in_order(some, data.tasks)]
    if len(found) < (data.episodes or 1):
        raise DataError(
            f"the arm {name!r} is to learn from {data.episodes or 'all'} episodes of tasks like {data.tasks!r}, and "
            f"there are {len(found)}: ask for fewer, or collect more"
        )
    if other := next((episode for episode in found if episode.split != "train"), None):
        raise DataError(
            f"the arm {name!r} is to learn from the run {other.run!r}, which is of the split {other.split}: name "
            "data.runs of training tasks"
        )
    return found[: data.episodes]


def _in_order(episodes: Iterable[EpisodeSummary], tasks: str) -> list[EpisodeSummary]:
    """Those of tasks like `tasks`, pass after pass, within one in an order that makes the first ones a fair sample."""
    globs = [glob.strip() for glob in tasks.split(",")]
    found = [e for e in episodes if e.decided and any(fnmatch.fnmatch(e.key.task, glob) for glob in globs)]
    return sorted(found, key=lambda e: (e.key.repeat, hashlib.sha256(e.key.task.encode()).digest()))
