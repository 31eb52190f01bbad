"""What an ablation asks, and the stores that its arms learn from, which are only read.

An arm's settings have three layers, each on top of the one before: what its episodes are collected with, what Q is
learned with, what acts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from pydantic import Field, JsonValue, NonNegativeInt, model_validator

from bestofq.config.agents import AgentKind
from bestofq.config.context import matches, step_limit_of
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import as_set, differences
from bestofq.core.transitions import Floats
from bestofq.models.cached_embedder import VectorStore
from bestofq.recipes.identity import run_identity
from bestofq.store.records import SEED_RUN, EpisodeSummary
from bestofq.store.store import Store

Changes = dict[str, JsonValue]
"""Settings that differ, nested as in a configuration file."""
PLAYED_APART = {"env", "browser", "allow", "search_fields", "spacy"}
"""Settings of a suite in which an arm may act otherwise than it learned: tasks and splits are the same."""
COLLECTED = ("n_candidates", "model", "suite", "chat")
"""What of a run's configuration the settings of an arm that learns from it must repeat."""


class Data(FrozenModel):
    """The stored episodes that Q learns from."""

    store: Path | None = Field(default=None, description="folder of a store, only read; relative to where one is")
    made_by: str = Field(default="bestofq collect", description="the command that makes that store")
    runs: tuple[str, ...] = Field(default=(SEED_RUN,), description="of the store, in the order they are drawn on")
    episodes: int | None = Field(default=None, ge=1, description="how many, pass after pass. Default: all")
    tasks: str = Field(default="*", description="globs of the tasks' ids; commas between them")


class Arm(FrozenModel):
    """One row of the table."""

    name: str
    agent: AgentKind = Field(default="best-of-q", description="who acts; those without a Q learn nothing")
    collect: Changes = Field(default={}, description="what its episodes are made with. Default: the ablation's data")
    learn: Changes = Field(default={}, description="on top of that, what Q and V are learned with")
    act: Changes = Field(default={}, description="on top of that, what ranks and acts")
    data: Changes = Field(default={}, description="which of the ablation's data it learns from, where not from all")


class Ablation(FrozenModel):
    """A question, and the arms that answer it. Differences are to the first arm."""

    title: str
    question: str = Field(description="one or two sentences")
    minutes: int = Field(ge=1, description="about, on two cores")
    config: Path = Field(description="the settings of all arms; relative to the ablation's file")
    set: Changes = Field(default={}, description="what the ablation changes in them")
    data: Data = Data()
    seeds: tuple[NonNegativeInt, ...] = Field(default=(0, 1), min_length=1, description="of IQL and of the draws")
    dev_tasks: int = Field(default=0, ge=0, description="whose steps an oracle rates")
    test_tasks: int = Field(default=100, ge=0, description="held-out, played by each Q-function; 0: none")
    passes: int = Field(default=1, ge=1, description="over the test tasks, of each Q-function")
    arm: tuple[Arm, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _arms_and_seeds_differ(self) -> "Ablation":
        names = [arm.name for arm in self.arm]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two arms are called {twice!r}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a seed comes twice in {list(self.seeds)}")
        return self


@dataclass(frozen=True, kw_only=True)
class ArmConfig:
    """An arm with its settings made out. `collecting` is None where it learns from the ablation's data. ConfigError
    where it acts in another suite than it learns from: that has other splits and other tasks."""

    arm: Arm
    data: Data
    collecting: BestOfQSettings | None
    learning: BestOfQSettings
    acting: BestOfQSettings

    def __post_init__(self) -> None:
        acting = self.acting.suite.identity()
        for verb, layer in (("collects", self.collecting), ("learns", self.learning)):
            for name, *values in differences(layer.suite.identity(), acting) if layer else ():
                if name.partition(".")[0] not in PLAYED_APART:
                    before, now = ("none" if value is None else value for value in values)
                    raise ConfigError(
                        f"the arm {self.arm.name!r} {verb} with suite.{name} = {before} and acts with {now}: tasks and "
                        "splits must be the same, or it may be tested on what it learned from"
                    )


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
        wanted = run_identity(config.learning, "train", step_limit_of(config.learning))
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
    ordered = (episode for some in passes for episode in sorted(some, key=attrgetter("fair_order")))
    found = [episode for episode in ordered if episode.decided and matches(data.tasks, episode.key.task)]
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
