"""What an ablation asks: arms that differ in a few settings, each with its episodes, its Q-functions and its agent.

An arm's settings have three layers, each on top of the one before: what its episodes are collected with, what Q is
learned with, what acts.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, JsonValue, model_validator

from bestofq.build.settings import AgentKind, BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.core.identity import differences
from bestofq.core.noun import Noun
from bestofq.store.run_names import SEED_RUN

Changes = dict[str, JsonValue]
"""Settings that differ, nested as in a configuration file."""
PLAYED_APART = {"env", "hosts", "search_fields", "spacy"}
"""Settings of a suite in which an arm may act otherwise than it learned: tasks and splits are the same."""


class Data(Noun):
    """The stored episodes that Q learns from."""

    store: Path | None = Field(
        default=None, description="folder of a store, which is only read; relative to where one is"
    )
    made_by: str = Field(default="bestofq collect", description="the command that makes that store")
    runs: tuple[str, ...] = Field(default=(SEED_RUN,), description="of the store, in the order they are drawn on")
    episodes: int | None = Field(default=None, ge=1, description="how many, pass after pass. Default: all")
    tasks: str = Field(default="*", description="globs of the tasks' ids; commas between them")


class Arm(Noun):
    """One row of the table."""

    name: str
    agent: AgentKind = Field(default="best-of-q", description="who acts; those without a Q learn nothing")
    collect: Changes = Field(default={}, description="what its episodes are made with. Default: the ablation's data")
    learn: Changes = Field(default={}, description="on top of that, what Q and V are learned with")
    act: Changes = Field(default={}, description="on top of that, what ranks and acts")
    data: Changes = Field(default={}, description="which of the ablation's data it learns from, where not from all")


class Ablation(Noun):
    """A question, and the arms that answer it. Differences are to the first arm."""

    title: str
    question: str = Field(description="one or two sentences")
    minutes: int = Field(ge=1, description="about, on two cores")
    config: Path = Field(description="the settings of all arms; relative to the ablation's file")
    set: Changes = Field(default={}, description="what the ablation changes in them")
    data: Data = Data()
    seeds: tuple[int, ...] = Field(default=(0, 1), min_length=1, description="of IQL and of the draws")
    dev_tasks: int = Field(
        default=0, ge=0, description="on whose steps an oracle rates what Q ranks first; the library has no oracle"
    )
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
    """An arm with its settings made out. `collecting` is None where it learns from the ablation's data.

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
            for name, before, now in differences(layer.suite.identity(), self.acting.suite.identity()):
                if name not in PLAYED_APART:
                    raise ConfigError(
                        f"the arm {self.arm.name!r} {verb} with suite.{name} = {_word(before)} and acts with "
                        f"{_word(now)}: tasks and splits must be the same, or it may be tested on what it learned from"
                    )


def _word(value: object) -> str:
    return "none" if value is None else str(value)
