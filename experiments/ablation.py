"""Ablations: arms that differ in a few settings, measured side by side (Best-of-Q, 5, E and G).

The names of runs and of Q-functions are hashes of all that they depend on: arms, and ablations in one folder, share
them, and the same call again continues.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bestofq.agents.scorers.learned import Values
from bestofq.cli.config import config_of, read_tree
from bestofq.cli.writing import write_out
from bestofq.config.agents import AGENTS
from bestofq.config.context import open_suite, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError
from bestofq.core.identity import key_of
from bestofq.core.observation import Split
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.identity import episode_set, made_by, q_identity, run_identity, search_identity
from bestofq.recipes.q_training import train_q
from bestofq.rollouts.console import console
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store
from experiments.ablation_config import Ablation, Arm, ArmConfig, Data, Sources, choose
from experiments.ablation_table import ablation_pictures, ablation_table, results_of
from experiments.recall import Rated

Ranker = Callable[["AblationRunner", Models, Values], Awaitable[Sequence[Rated]]]
"""Rates what a Q-function would choose at stored dev steps."""


@dataclass(kw_only=True)
class ArmResult:
    """What became of an arm, one entry a seed where there are several."""

    name: str
    learned: list[EpisodeSummary] = field(default_factory=list)  # the episodes that Q learned from
    values: list[str] = field(default_factory=list)  # names of Q-functions, folders in `out/q`
    ranked: list[Sequence[Rated]] = field(default_factory=list)  # dev steps, as Q would have chosen there
    played: list[list[EpisodeSummary]] = field(default_factory=list)  # on test tasks


class AblationRunner:
    """Measures the arms of an ablation in the folder `out`."""

    def __init__(self, ablation: Ablation, out: Path, rank: Ranker) -> None:
        self.ablation, self.out, self._rank = ablation, out, rank

    def __enter__(self) -> "AblationRunner":
        self.store = Store.open(self.out)
        self.sources = Sources(self.store)
        return self

    def __exit__(self, *_: object) -> None:
        self.sources.close()
        self.store.close()

    async def measure(self, config: ArmConfig) -> ArmResult:
        """Collect, learn, rank and play, each where it is asked for and not done yet."""
        found = ArmResult(name=config.arm.name)
        learned = AGENTS[config.arm.agent].reads_q(config.acting)
        console.rule(f"{self.ablation.title}: {config.arm.name}", align="left")
        if learned:
            source, found.learned = await self._episodes(config)
            learning = Models(config.learning)
            ranking = Models(config.acting.model_copy(update={"epsilon": 0.0}))  # nobody explores: steps are shared
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
                    found.ranked.append(await self._rank(self, ranking, values))
            if self.ablation.test_tasks:
                found.played.append(await self._play(config, key, values, seed))
        return found

    async def _episodes(self, config: ArmConfig) -> tuple[Store, list[EpisodeSummary]]:
        """What the arm learns from, and where it is stored."""
        if config.collecting is None:
            source = self.sources.of(config)
            passes = [source.summaries(run=run) for run in dict.fromkeys(config.data.runs)]
        else:
            source, play = self.store, Play("explore", config.collecting.seed_runs)
            passes = [await self.collect(Models(config.collecting), "data", play)]
        return source, choose(passes, config)

    async def collect(
        self, models: Models, kind: str, play: Play, facts: Mapping[str, JsonValue] | None = None
    ) -> list[EpisodeSummary]:
        """Episodes in the run of the kind that is named by all that they depend on; `facts`: what else that is."""
        run = f"{kind}-{key_of({**facts_of(models, play.split), **(facts or {})})}"
        async with open_suite(models) as suite:
            return await collect(models, suite, self.store, run, play)

    def _learn(self, models: Models, source: Store, learned: Sequence[EpisodeSummary], seed: int) -> tuple[Values, str]:
        """The Q-function of a seed, and the name of its folder."""
        iql, vectors = models.settings.iql.model_copy(update={"seed": seed}), self.sources.vectors(models.embedder.spec)
        key = key_of(q_identity(models, episode_set(learned), iql))
        return train_q(self.out / "q" / key, models, source, learned, iql=iql, vectors=vectors), key

    async def _play(self, config: ArmConfig, key: str, values: Values | None, seed: int) -> list[EpisodeSummary]:
        """Held-out test tasks, with draws of the seed's own."""
        models = Models(config.acting.model_copy(update={"seed": seed}))
        play = Play(config.arm.agent, self.ablation.passes, values, "test", self.ablation.test_tasks)
        own = AGENTS[config.arm.agent].whole_identity(models.settings, None, {})  # what agents of this kind read
        facts: dict[str, JsonValue] = {
            **{name: own[name] for name in ("scorer",) if name in own},
            "q": key,
            "beta": models.settings.beta,
            "search": search_identity(models, "mcts"),
        }
        return await self.collect(models, "test", play, facts)


def facts_of(models: Models, split: Split) -> dict[str, JsonValue]:
    """What the episodes of a run depend on, their tasks, the prompts and a local model's weights included."""
    settings = models.settings
    return {
        **run_identity(settings, split, step_limit_of(settings)),
        "tasks": settings.suite.selection(),
        "prompts": models.prompts,
        "weights": models.local.revision if settings.endpoint_of("chat") is None else None,
    }


def run_ablation(file: Path, out: Path, results: Path | None, rank: Ranker) -> None:
    """Measure a file's arms; `rank` rates what their Q-functions choose at dev steps, if the file asks for that."""
    ablation, configs = read_ablation(file)

    async def measure() -> list[ArmResult]:
        with AblationRunner(ablation, out, rank) as runner:
            return [await runner.measure(config) for config in configs]

    console.print(f"{ablation.title}: about {ablation.minutes} minutes on two cores")
    found = results_of(run_interruptible(measure()))
    table = ablation_table(ablation.title, found)
    folder = results or file.parent
    result = {
        **made_by(configs[0].learning),
        "study": ablation.model_dump(mode="json"),
        "arms": [row.model_dump(mode="json") for row in found],
    }
    console.print(table)
    write_out(folder / "result.json", result)
    (folder / "table.md").write_text(table.to_markdown(), "utf-8")
    for name, picture in ablation_pictures(ablation.title, found).items():
        (folder / name).write_text(picture, "utf-8")


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
