"""Ablations: arms that differ in a few settings, measured side by side (Best-of-Q, 5, E and G).

An arm's settings have three layers, each on top of the one before: what its episodes are collected with, what Q is
learned with, what acts. The names of runs and of Q-functions are hashes of all that they depend on. So arms, and
ablations in one folder, share them, and the same call again continues.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, JsonValue, NonNegativeInt, model_validator

from bestofq.agents.scorers.learned import Values
from bestofq.cli.config import config_of, read_tree
from bestofq.config.agents import AGENTS, AgentKind
from bestofq.config.context import matches, open_suite, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.decision import Episode
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import as_set, differences, key_of
from bestofq.core.observation import Split
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.estimate import Logs, logs_of, rank_logs
from bestofq.recipes.identity import episode_set, made_by, mcts_identity, q_identity, run_identity
from bestofq.recipes.q_training import train_q
from bestofq.rollouts.console import console
from bestofq.store.records import SEED_RUN, EpisodeSummary
from bestofq.store.store import Store
from experiments.ablation_table import ArmResult, ablation_table, results_of
from experiments.figures import write_results
from experiments.ranking import OracleStep, oracle_steps

Changes = dict[str, JsonValue]
"""Settings that differ, nested as in a configuration file."""
PLAYED_APART = {"env", "browser", "allow", "search_fields"}
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


class AblationRunner:
    """Measures the arms of an ablation in the folder `out`, whose store keeps new episodes and vectors. `opened` closes
    it, and the stores that arms learn from, which are only read."""

    def __init__(self, ablation: Ablation, out: Path, opened: ExitStack) -> None:
        self.ablation, self.out, self._opened = ablation, out, opened
        self._models = Models(BestOfQSettings())  # a model that arms share is loaded once
        self.store = opened.enter_context(Store.open(out))
        self._dev: dict[str, Logs] = {}

    async def measure(self, config: ArmConfig) -> ArmResult:
        """Collect, learn, rank and play, each where it is asked for and not done yet."""
        found = ArmResult(name=config.arm.name)
        learned = AGENTS[config.arm.agent].reads_q(config.acting)
        console.rule(f"{self.ablation.title}: {config.arm.name}", align="left")
        if learned:
            source, found.learned = await self._episodes(config)
            learning = self._models.with_settings(config.learning)
            still = config.acting.model_copy(update={"epsilon": 0.0})  # nobody explores: steps are shared
            ranking = self._models.with_settings(still)
            if ranking.embedder.spec != learning.embedder.spec:
                raise ConfigError(
                    f"the arm {config.arm.name!r} learns and acts with other embeddings: name one model.embedder"
                )
        for seed in self.ablation.seeds:
            values, key = None, str(config.arm.agent)
            if learned:
                values, key = self._learn(learning, source, found.learned, seed)
                found.values.append(key)
                if self.ablation.dev_tasks:
                    found.ranked.append(await self._rank(ranking, values))
            if self.ablation.test_tasks:
                found.played.append(await self._play(config, key, values, seed))
        return found

    async def _episodes(self, config: ArmConfig) -> tuple[Store, list[EpisodeSummary]]:
        """What the arm learns from, and where it is stored."""
        if config.collecting is None:
            source = self._source(config)
            passes = [source.summaries(run=run) for run in dict.fromkeys(config.data.runs)]
        else:
            source, play = self.store, Play("explore", config.collecting.seed_runs)
            passes = [await self._collect(self._models.with_settings(config.collecting), "data", play)]
        return source, choose(passes, config)

    def _source(self, config: ArmConfig) -> Store:
        """The store of an arm's data. DataError where there is none, or it was collected with other settings."""
        where = config.data.store
        if where is None:
            raise DataError(f"the arm {config.arm.name!r} has nothing to learn from: give it `collect`, or data.store")
        if not (where / "store.sqlite").exists():
            raise DataError(f"there are no episodes in {where}: `{config.data.made_by}` makes them")
        source = self._opened.enter_context(Store.open(where, read_only=True))
        stored = {run.name: run.config for run in source.runs()}
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
        return source

    async def _collect(
        self, models: Models, kind: str, play: Play, facts: Mapping[str, JsonValue] | None = None
    ) -> list[EpisodeSummary]:
        """Episodes in the run of the kind that is named by all that they depend on; `facts`: what else that is."""
        run = f"{kind}-{key_of({**facts_of(models, play.split), **(facts or {})})}"
        async with open_suite(models) as suite:
            return await collect(models, suite, self.store, run, play)

    def _learn(self, models: Models, source: Store, learned: Sequence[EpisodeSummary], seed: int) -> tuple[Values, str]:
        """The Q-function of a seed, and the name of its folder."""
        iql = models.settings.iql.model_copy(update={"seed": seed})
        key = key_of(q_identity(models, episode_set(learned), iql))
        vectors = self.store.vectors(models.embedder.spec)
        return train_q(self.out / "q" / key, models, source, learned, iql=iql, vectors=vectors), key

    async def _rank(self, models: Models, values: Values) -> list[OracleStep]:
        """What the Q-function would choose at dev steps of a policy that chose at random, rated by the oracle."""
        key = key_of({**facts_of(models, "dev"), "embed": models.embedder.spec.hash})
        if key not in self._dev:
            done = await self._collect(models, "dev", Play("random", split="dev", limit=self.ablation.dev_tasks))
            self._dev[key] = logs_of(models, self.store, done)
        logs = self._dev[key]
        best = iter(rank_logs(logs, values).q.argmax(axis=1).tolist())
        return list(oracle_steps(models, [choose_again(one, best) for one in logs.episodes], logs.episodes))

    async def _play(self, config: ArmConfig, key: str, values: Values | None, seed: int) -> list[EpisodeSummary]:
        """Held-out test tasks, with draws of the seed's own."""
        models = self._models.with_settings(config.acting.model_copy(update={"seed": seed}))
        play = Play(config.arm.agent, 1, values, "test", self.ablation.test_tasks)
        own = AGENTS[config.arm.agent].whole_identity(models.settings, None, {})  # what agents of this kind read
        facts: dict[str, JsonValue] = {
            **{name: own[name] for name in ("scorer",) if name in own},
            "q": key,
            "beta": models.settings.beta,
            "search": mcts_identity(models.settings),
        }
        return await self._collect(models, "test", play, facts)


def choose_again(episode: Episode, choices: Iterator[int]) -> Episode:
    """Return the episode as if these had been its choices."""
    decisions = [step.decision.model_copy(update={"chosen": next(choices)}) for step in episode.steps]
    pairs = zip(episode.steps, decisions, strict=True)
    steps = tuple(step.model_copy(update={"decision": decision}) for step, decision in pairs)
    return episode.model_copy(update={"steps": steps})


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


def facts_of(models: Models, split: Split) -> dict[str, JsonValue]:
    """What the episodes of a run depend on, their tasks, the prompts and a local model's weights included."""
    settings = models.settings
    return {
        **run_identity(settings, split, step_limit_of(settings)),
        "tasks": settings.suite.selection(),
        "prompts": models.prompts,
        "weights": models.local.revision if settings.endpoint_of("chat") is None else None,
    }


def ablation(
    file: Annotated[Path, typer.Argument(help="TOML file of an ablation.")],
    out: Annotated[Path, typer.Option(help="Folder of episodes and Q-functions; ablations may share it.")] = Path(
        "runs/ablations"
    ),
    results: Annotated[Path | None, typer.Option(help="Folder of the results. Default: the file's own.")] = None,
) -> None:
    """Learn and play with settings that differ in one thing, and compare. Resumable.

    If the file sets dev_tasks, an oracle rates what each Q-function ranks first at stored dev steps.
    """
    study, configs = read_ablation(file)

    async def measure() -> list[ArmResult]:
        with ExitStack() as opened:
            runner = AblationRunner(study, out, opened)
            return [await runner.measure(config) for config in configs]

    console.print(f"{study.title}: about {study.minutes} minutes on two cores")
    found = results_of(run_interruptible(measure()))
    table = ablation_table(study.title, found)
    console.print(table)
    result = {
        **made_by(configs[0].learning),
        "study": study.model_dump(mode="json"),
        "arms": [row.model_dump(mode="json") for row in found],
    }
    write_results(results or file.parent, result, table.to_markdown())


def read_ablation(file: Path) -> tuple[Ablation, list[ArmConfig]]:
    """An ablation with the settings of its arms. ConfigError on what is not understood, or cannot be compared."""
    tree = read_tree(file)
    try:
        ablation = config_of(Ablation, tree)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    base = merge_settings(read_tree(file.parent / ablation.config), ablation.set)
    return ablation, [_arm_config(ablation, arm, base) for arm in ablation.arm]


def merge_settings(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One tree of settings, in which `over` has the last word."""
    tables = (name for name, value in over.items() if isinstance(value, dict) and isinstance(under.get(name), dict))
    return {**under, **over, **{name: merge_settings(under[name], over[name]) for name in tables}}


def _arm_config(ablation: Ablation, arm: Arm, base: dict[str, object]) -> ArmConfig:
    try:
        collecting = merge_settings(base, arm.collect)
        learning = merge_settings(collecting, arm.learn)
        data = config_of(Data, merge_settings(ablation.data.model_dump(), arm.data))
        own = config_of(BestOfQSettings, collecting) if arm.collect else None
        learned, acting = (config_of(BestOfQSettings, tree) for tree in (learning, merge_settings(learning, arm.act)))
    except ConfigError as error:
        raise ConfigError(f"The arm {arm.name!r}: {error}") from error
    return ArmConfig(arm=arm, data=data, collecting=own, learning=learned, acting=acting)
