"""Turn options into what commands work with: settings and models, a suite, a store, a Q-function."""

import json
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from bestofq.agents.scorers.learned import Values
from bestofq.cli.config import load_config
from bestofq.cli.options import CommonOptions
from bestofq.config.agents import AGENTS, AgentKind, load_values, proposer_name, shipped_q
from bestofq.config.context import OpenSuite, open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError
from bestofq.envs.settings import SuiteSettings
from bestofq.envs.suites import make_suite
from bestofq.models.prices import Budget
from bestofq.reports.costs import Costs, agent_costs, cost_table
from bestofq.reports.rows import Selection
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store

EVERY = 1_000_000  # tasks
Known = TypeVar("Known")


def models_of(options: CommonOptions, *more: str) -> Models:
    """Make the models of the settings. `--set` goes over `more`. ConfigError for an endpoint without a model's name."""
    named = {"suite.name": options.suite, "suite.data": options.data, "endpoints.chat.base_url": options.base_url}
    named["model.path" if options.base_url is None else "endpoints.chat.model"] = options.model
    if options.base_url is not None and options.model is None:
        raise ConfigError(
            f"--base-url {options.base_url} needs --model, the name by which the endpoint knows its model"
        )
    config = load_config(BestOfQSettings, options.config, [*more, *set_by(named), *(options.set_ or ())])
    return Models(config, budget_of(options.budget))


def set_by(named: Mapping[str, object]) -> list[str]:
    return [f"{key}={json.dumps(str(value), ensure_ascii=False)}" for key, value in named.items() if value is not None]


def budget_of(budget: float | None) -> Budget:
    return Budget() if budget is None else Budget(budget)


def store_of(options: CommonOptions, models: Models) -> Location:
    return Location.of(options.store or f"runs/{models.settings.suite.name.rpartition(':')[2]}", options.files)


@contextmanager
def store_at(place: Location) -> Iterator[Store]:
    """To write into, made when missing; a folder is removed again where the command fails with nothing kept."""
    made = [one for one in (place.folder, *place.folder.parents) if not one.exists()] if place.is_folder else []
    empty = False
    try:
        with Store.open(place) as store:
            try:
                yield store
            except BaseException:
                empty = not (store.summaries(status=None) or store.trees.summaries() or store.has_notes)
                raise
    finally:
        if made and empty:
            with suppress(OSError):  # another command may have put something there
                shutil.rmtree(place.folder)
                for one in made[1:]:
                    one.rmdir()


def open_existing_store(store: Location) -> Store:
    """The store there, to write into. DataError where there is none: no folder is made of a mistyped name."""
    Store.open(store, read_only=True).close()
    return Store.open(store)


def play_and_show(
    models: Models, store: Location, play: Callable[[OpenSuite, Store], Awaitable[object]], played: Selection
) -> None:
    named = make_suite(models.settings.suite)

    async def work() -> Costs:
        async with open_suite(models, named) as suite:
            with store_at(store) as opened:
                await play(suite, opened)
                return agent_costs(opened, played)

    console.print(cost_table(run_interruptible(work())))  # once all is closed: Ctrl-C finds nothing to stop


def with_values(models: Models, folder: Path | None, kinds: Collection[AgentKind]) -> tuple[Models, Values | None]:
    """A Q-function for the agents that need one, and the models with the embeddings it reads. ConfigError where none is
    given and none ships for this model and suite, and where nobody says what embeds the texts of an endpoint."""
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"--q {folder}: there is no such folder; bestofq train makes one")
    if not any(AGENTS[kind].reads_q(models.settings) for kind in kinds):
        return models, None
    folder = folder or shipped_q(models.settings)
    if folder is None:
        name, suite = proposer_name(models.settings), models.settings.suite.name
        raise ConfigError(f"no Q-function ships for the model {name} on {suite}: give --q one made there")
    return load_values(folder, models)


def kind_of(name: str) -> AgentKind:
    return one_of("agent", name, tuple(AGENTS))


def one_of(what: str, name: str, known: tuple[Known, ...]) -> Known:
    if name in known:
        return known[known.index(name)]
    raise ConfigError(f"there is no {what} {name!r}: it is one of {', '.join(map(str, known))}")


def named_only(tasks: str | None) -> list[str]:
    return [] if tasks is None or tasks.isdecimal() else set_by({"suite.only": tasks})


def training_tasks(tasks: str | None, setting: str = "suite.train_tasks") -> list[str]:
    """The setting for `--tasks` of a command on training tasks; `setting` says how many."""
    return [f"{setting}={tasks}"] if tasks is not None and tasks.isdecimal() else named_only(tasks)


def limit_of(tasks: str | None, suite: SuiteSettings) -> int:
    """How many tasks at most: as given, all of those that globs name, by default as many as the suite says."""
    if tasks is None:
        return suite.eval_tasks or EVERY
    return max(1, int(tasks)) if tasks.isdecimal() else EVERY
