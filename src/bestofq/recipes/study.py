"""Studies: arms that differ in a few settings, each with Q-functions of its own, measured side by side (Best-of-Q, 5, E
and G).

An arm's settings have three layers, each on top of the one before: what its episodes are collected with, what Q is
learned with, what acts. Whatever is equal is done once: the names of runs and of Q-functions are hashes of all that
they depend on, so that arms, and studies in one folder, share them, and the same call again goes on.
"""

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import Field, JsonValue, model_validator
from rich.console import Console

from bestofq.agents.scorers.learned import QScorer
from bestofq.core.decision import Episode
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.noun import Noun
from bestofq.core.observation import Split
from bestofq.core.transitions import Floats, Transitions
from bestofq.learning.checkpoint import CARD, load_value
from bestofq.learning.value import ValueModel
from bestofq.models.embed_once import VectorStore
from bestofq.recipes.best_of_q import SEED_RUN, collect, embedded, learn, transitions_of
from bestofq.recipes.parts import Parts
from bestofq.recipes.ranking import OracleStep, oracle_steps, rescored
from bestofq.recipes.run_config import run_config, search_settings
from bestofq.recipes.settings import AgentKind, BestOfQSettings
from bestofq.recipes.worlds import open_world
from bestofq.rollouts.episode import state_at
from bestofq.store.configuration import agree
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

Changes = dict[str, JsonValue]
"""Settings that differ, nested as in a configuration file."""
SAME_SUITE = ("name", "data", "seed", "splits", "holdout")
"""What decides which tasks there are, and which of them are held out."""


class Data(Noun):
    """The stored episodes that Q learns from."""

    store: Path | None = Field(
        default=None, description="folder of a store, which is only read; relative to where one is"
    )
    made_by: str = Field(default="bestofq collect", description="the command that makes that store")
    runs: tuple[str, ...] = Field(default=(SEED_RUN,), description="of the store, in the order they are drawn on")
    episodes: int | None = Field(default=None, ge=1, description="this many, pass after pass; none: all there are")
    tasks: str = Field(default="*", description="globs of the tasks' ids; commas between them")


class Arm(Noun):
    """One row of the table."""

    name: str
    agent: AgentKind = Field(default="best-of-q", description="who acts; those without a Q learn nothing")
    collect: Changes = Field(default={}, description="what its own episodes are made with; none: the study's data")
    learn: Changes = Field(default={}, description="on top of that, what Q and V are learned with")
    act: Changes = Field(default={}, description="on top of that, what ranks and acts")
    data: Changes = Field(default={}, description="which of the study's data it learns from, where not from all")


class Study(Noun):
    """A question, and the arms that answer it. Differences are to the first arm."""

    title: str
    question: str = Field(description="one or two sentences")
    minutes: int = Field(ge=1, description="about, on two cores")
    config: Path = Field(description="the settings of all arms; relative to the study's file")
    set: Changes = Field(default={}, description="what the study changes in them")
    data: Data = Data()
    seeds: tuple[int, ...] = Field(default=(0, 1), min_length=1, description="of IQL and of the draws")
    dev_tasks: int = Field(default=100, ge=0, description="on whose steps candidates are ranked, by an oracle; 0: none")
    test_tasks: int = Field(default=100, ge=0, description="held-out, played by each Q-function; 0: none")
    passes: int = Field(default=1, ge=1, description="over the test tasks, of each Q-function")
    arm: tuple[Arm, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _arms_and_seeds_differ(self) -> "Study":
        names = [arm.name for arm in self.arm]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two arms are called {twice!r}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a seed comes twice in {list(self.seeds)}")
        return self


@dataclass(frozen=True, kw_only=True)
class Setup:
    """An arm with its settings made out. `collecting` is None where it learns from the study's data.

    ConfigError where it acts in another suite than it learns from: its splits are others, so that test tasks may have
    been trained on, and a task's name is another task.
    """

    arm: Arm
    data: Data
    collecting: BestOfQSettings | None
    learning: BestOfQSettings
    acting: BestOfQSettings

    def __post_init__(self) -> None:
        for verb, layer in (("collects", self.collecting), ("learns", self.learning)):
            if layer is None:
                continue
            for name in SAME_SUITE:
                before, now = (getattr(settings.suite, name) for settings in (layer, self.acting))
                if before != now:
                    raise ConfigError(
                        f"the arm {self.arm.name!r} {verb} with suite.{name} = {_word(before)} and acts with "
                        f"{_word(now)}: tasks and splits must be the same, or it may be tested on what it learned from"
                    )


@dataclass(kw_only=True)
class Measured:
    """What became of an arm, one entry a seed where there are several."""

    name: str
    learned: list[EpisodeSummary] = field(default_factory=list)  # the episodes that Q learned from
    values: list[str] = field(default_factory=list)  # names of Q-functions, folders in `out/q`
    ranked: list[list[OracleStep]] = field(default_factory=list)  # dev steps, as Q would have chosen there
    played: list[list[EpisodeSummary]] = field(default_factory=list)  # on test tasks


@dataclass(frozen=True)
class _Dev:
    """Stored dev episodes of a policy that chose at random, and the vectors of all they hold."""

    episodes: list[Episode]
    vectors: Mapping[str, Floats]


class Bench:
    """Does what a study asks for, in the folder `out`: a store and Q-functions."""

    def __init__(self, study: Study, out: Path, console: Console) -> None:
        self.study, self.out, self.console = study, out, console
        self._open = ExitStack()
        self._sources: dict[Path, Store] = {}
        self._last: tuple[str, Transitions] | None = None  # the data of the arm before: arms often share it
        self._dev: dict[str, _Dev] = {}

    def __enter__(self) -> "Bench":
        self.store = self._open.enter_context(Store.open(self.out))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    async def measure(self, setup: Setup) -> Measured:
        """Collect, learn, rank and play, each where it is asked for and not done yet."""
        found = Measured(name=setup.arm.name)
        self.console.rule(f"{self.study.title}: {setup.arm.name}", align="left")
        if setup.acting.reads_q(setup.arm.agent):
            source, found.learned = await self._episodes(setup)
            learning = Parts(setup.learning)
            ranking = Parts(setup.acting.model_copy(update={"epsilon": 0.0}))  # nobody explores: steps are shared
            if ranking.embedder.spec != learning.embedder.spec:
                raise ConfigError(
                    f"the arm {setup.arm.name!r} learns and acts with other embeddings: name one model.embedder"
                )
        for seed in self.study.seeds:
            values, key = None, str(setup.arm.agent)
            if setup.acting.reads_q(setup.arm.agent):
                values, key = self._learn(learning, source, found.learned, seed)
                found.values.append(key)
                if self.study.dev_tasks:
                    found.ranked.append(await self._rank(ranking, values))
            if self.study.test_tasks:
                found.played.append(await self._play(setup, key, values, seed))
        return found

    async def _episodes(self, setup: Setup) -> tuple[Store, list[EpisodeSummary]]:
        """What the arm learns from, and where it is stored."""
        data = setup.data
        if setup.collecting is None:
            source = self._source(setup)
            passes = [source.summaries(run=run) for run in data.runs]
        else:
            parts, source = Parts(setup.collecting), self.store
            run, repeats = f"data-{_key(_facts(parts, 'train'))}", setup.collecting.seed_runs
            async with open_world(parts) as world:
                passes = [await collect(parts, world, source, run, "explore", self.console, repeats=repeats)]
        found = [episode for some in passes for episode in _in_passes(some, data.tasks)]
        if len(found) < (data.episodes or 1):
            raise DataError(
                f"the arm {setup.arm.name!r} is to learn from {data.episodes or 'all'} episodes of tasks like "
                f"{data.tasks!r}, and there are {len(found)}: ask for fewer, or collect more"
            )
        if other := next((episode for episode in found if episode.split != "train"), None):
            raise DataError(
                f"the arm {setup.arm.name!r} is to learn from the run {other.run!r}, which is of the split "
                f"{other.split}: name data.runs of training tasks"
            )
        return source, found[: data.episodes]

    def _source(self, setup: Setup) -> Store:
        """The study's store. DataError where there is none, or its episodes were collected with other settings."""
        where = setup.data.store
        if where is None:
            raise DataError(f"the arm {setup.arm.name!r} has nothing to learn from: give it `collect`, or data.store")
        if not (where / "store.sqlite").exists():
            raise DataError(f"there are no episodes in {where}: `{setup.data.made_by}` makes them")
        if where not in self._sources:
            self._sources[where] = self._open.enter_context(Store.open(where, read_only=True))
        stored = {run.name: run.config for run in self._sources[where].runs()}
        wanted = run_config(Parts(setup.learning), "train")
        for run in setup.data.runs:
            if run not in stored:
                raise DataError(f"there is no run {run!r} in {where}: it has {', '.join(stored)}")
            known = {"chat": None, **stored[run]}
            for name in ("n_candidates", "model", "suite", "chat"):
                if name in known and not agree(known[name], wanted.get(name)):
                    raise DataError(
                        f"run {run!r} of {where} was collected with {name} {known[name]}, the arm {setup.arm.name!r} "
                        f"says {wanted.get(name)}: give it `collect`, or the settings of that run"
                    )
        return self._sources[where]

    def _learn(
        self, parts: Parts, source: Store, learned: Sequence[EpisodeSummary], seed: int
    ) -> tuple[ValueModel, str]:
        """The Q-function of a seed, and the name of its folder."""
        iql, spec = parts.settings.iql.model_copy(update={"seed": seed}), parts.embedder.spec
        ids = [episode.id for episode in learned]
        kept = iql.model_dump(mode="json", exclude={"device", "log_every"})
        key = _key({"episodes": ids, "embed": spec.hash, "iql": kept, "n": parts.settings.n_candidates})
        out = self.out / "q" / key
        if (out / CARD).exists():
            return load_value(out, embed=spec), key
        data = _key({"episodes": ids, "embed": spec.hash})
        if self._last is None or self._last[0] != data:
            wanted = set(ids)
            runs = dict.fromkeys(episode.run for episode in learned)
            episodes = (e for run in runs for e in source.episodes(run=run) if e.id in wanted)
            self._last = data, transitions_of(parts, episodes, source, self._vectors(spec), self.console)
        return learn(parts, self._last[1], out, self.console, iql=iql), key

    async def _rank(self, parts: Parts, values: ValueModel) -> list[OracleStep]:
        """What Q would choose at the stored dev steps of the acting policy, rated by the suite's oracle."""
        dev = await self._dev_steps(parts)
        known = _Known(parts.embedder.spec, dev.vectors)
        scorer = QScorer(values, known, parts.texts, checkpoint=values.checkpoint)
        return list(oracle_steps(parts, await rescored(dev.episodes, scorer)))

    async def _dev_steps(self, parts: Parts) -> _Dev:
        facts = _facts(parts, "dev")
        key = _key({**facts, "embed": parts.embedder.spec.hash})
        if key not in self._dev:
            run = f"dev-{_key(facts)}"
            async with open_world(parts) as world:
                done = await collect(
                    parts,
                    world,
                    self.store,
                    run,
                    "random",
                    self.console,
                    repeats=1,
                    split="dev",
                    limit=self.study.dev_tasks,
                )
            wanted = {episode.id for episode in done}
            episodes = [e for e in self.store.episodes(run=run) if e.id in wanted]
            items = {item.key: item for episode in episodes for item in _items(parts, episode)}
            vectors = self._vectors(parts.embedder.spec)
            found = embedded(parts, list(items.values()), self.store, vectors, self.console)
            self._dev[key] = _Dev(episodes, dict(zip(items, found, strict=True)))
        return self._dev[key]

    async def _play(self, setup: Setup, key: str, values: ValueModel | None, seed: int) -> list[EpisodeSummary]:
        """Held-out test tasks, with draws of the seed's own."""
        parts = Parts(setup.acting.model_copy(update={"seed": seed}))
        facts = {
            **_facts(parts, "test"),
            "q": key,
            "beta": parts.settings.beta,
            "beams": parts.settings.model.beams,
            "search": search_settings(parts, "mcts"),
        }
        async with open_world(parts) as world:
            return await collect(
                parts,
                world,
                self.store,
                f"test-{_key(facts)}",
                setup.arm.agent,
                self.console,
                repeats=self.study.passes,
                values=values,
                split="test",
                limit=self.study.test_tasks,
            )

    def _vectors(self, spec: EmbedSpec) -> "_Layered":
        return _Layered(self.store.vectors(spec), [source.vectors(spec) for source in self._sources.values()])


@dataclass(frozen=True)
class _Layered:
    """Vectors of the study's own store and of those it only reads."""

    own: VectorStore
    others: Sequence[VectorStore]

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Floats]:
        found: dict[str, Floats] = {}
        for layer in (*self.others, self.own):
            found |= layer.get_many([key for key in keys if key not in found])
        return found

    def put_many(self, vectors: Mapping[str, Floats]) -> None:
        self.own.put_many(vectors)


@dataclass
class _Known:
    """`Embedder` of what was embedded before."""

    spec: EmbedSpec
    vectors: Mapping[str, Floats]

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.stack([self.vectors[item.key] for item in items]), 0


def _items(parts: Parts, episode: Episode) -> Iterable[EmbedItem]:
    """All that ranking the candidates of an episode's steps reads."""
    texts = parts.texts
    yield texts.task(episode.task)
    for index, step in enumerate(episode.steps):
        state = state_at(episode.task, episode.steps[:index], step.observation)
        yield texts.state(state)
        yield from (texts.action(state, candidate) for candidate in step.decision.candidates)


def _facts(parts: Parts, split: Split) -> dict[str, JsonValue]:
    """What the episodes of a run depend on, their tasks, the prompts and a local model's weights included."""
    suite = parts.settings.suite.model_dump(mode="json", include={"only", "per_task", "families"})
    weights = parts.model.revision if parts.settings.chat is None else None
    return {**run_config(parts, split), "tasks": suite, "prompts": parts.prompts, "weights": weights}


def _key(facts: Mapping[str, JsonValue | Sequence[str]]) -> str:
    """A name that is equal where all facts are, 12 hex digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def _in_passes(episodes: Iterable[EpisodeSummary], tasks: str) -> list[EpisodeSummary]:
    """Those of tasks like `tasks`, pass after pass, within one in an order that makes the first ones a fair sample."""
    globs = [glob.strip() for glob in tasks.split(",")]
    found = [e for e in episodes if e.told and any(fnmatch.fnmatch(e.key.task, glob) for glob in globs)]
    return sorted(found, key=lambda e: (e.key.repeat, hashlib.sha256(e.key.task.encode()).digest()))


def _word(value: object) -> str:
    return "none" if value is None else str(value)
