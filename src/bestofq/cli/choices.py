"""What several commands let their user choose, and what it stands for."""

from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Annotated, get_args

import typer

from bestofq.build.agents import proposer_name, shipped_q
from bestofq.build.models import Models, check_embedder
from bestofq.build.settings import AgentKind, BestOfQSettings
from bestofq.cli.config import load_config
from bestofq.cli.options import RUNS as RUNS
from bestofq.cli.options import Config as Config
from bestofq.cli.options import Folder as Folder
from bestofq.cli.options import Set as Set
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Split
from bestofq.envs.settings import SuiteSettings
from bestofq.envs.suites import SUITES
from bestofq.learning.checkpoint import load_value, read_card
from bestofq.learning.value import ValueModel

Q = Annotated[Path | None, typer.Option("--q", help="Folder of the Q-function; none: the one that ships.")]
Model = Annotated[
    str | None, typer.Option("--model", help="Who proposes: with --base-url the endpoint's name, else a directory.")
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint, with its /v1.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Your files: WebShop's folder, WebVoyager's jsonl; none: the synthetic shop."),
]
EVERY = 1_000_000  # tasks
SUITE_NAMES = f"{', '.join(SUITES)}, or my_package.my_module:make_suite"


def models_of(
    config: Path | None,
    settings: list[str] | None,
    model: str | None = None,
    base_url: str | None = None,
    *more: str,
    data: Path | None = None,
) -> Models:
    """The models of the settings given; `more` are the command's own, and `settings` have the last word.

    ConfigError when an endpoint is given without a model's name.
    """
    given = [] if data is None else [f"suite.data={data}"]
    if base_url is not None:
        if model is None:
            raise ConfigError(f"--base-url {base_url} needs --model, the name by which the endpoint knows its model")
        given += [f"chat.base_url={base_url}", f"chat.model={model}"]
    elif model is not None:
        given += [f"model.path={model}"]
    return Models(load_config(BestOfQSettings, config, [*more, *given, *(settings or ())]))


def with_values(models: Models, folder: Path | None, kinds: Collection[AgentKind]) -> tuple[Models, ValueModel | None]:
    """A Q-function for the agents that need one, and the models with the embeddings it reads.

    ConfigError where none is given and none ships for this model and suite, and where nobody says what embeds the texts
    of an endpoint.
    """
    if not any(map(models.settings.reads_q, kinds)):
        return models, None
    folder = folder or shipped_q(models.settings)
    if folder is None:
        name, suite = proposer_name(models.settings), models.settings.suite.name
        raise ConfigError(f"no Q-function ships for the model {name} on {suite}: give --q one made there")
    card = read_card(folder)
    if models.settings.chat is not None:
        check_embedder(models.settings, models.settings.chat.model, card.embed.model)
    models = models.reading(card.embed)
    return models, load_value(folder, embed=models.embedder.spec)


def kind_of(name: str) -> AgentKind:
    """The agent of that name. ConfigError when there is none."""
    kinds: tuple[AgentKind, ...] = get_args(AgentKind)
    for kind in kinds:
        if name == kind:
            return kind
    raise ConfigError(f"there is no agent {name!r}: it is one of {', '.join(kinds)}")


def split_of(name: str) -> Split:
    """The split of that name. ConfigError when there is none."""
    splits: tuple[Split, ...] = get_args(Split)
    for split in splits:
        if name == split:
            return split
    raise ConfigError(f"there is no split {name!r}: it is one of {', '.join(splits)}")


def limit_of(tasks: str | None, suite: SuiteSettings) -> int:
    """How many tasks at most: as given, all of those that globs name, by default as many as the suite says."""
    if tasks is None:
        return suite.eval_tasks or EVERY
    return max(1, int(tasks)) if tasks.isdecimal() else EVERY


def day_of(text: str | None) -> date:
    """The day as given, else today."""
    if text is None:
        return date.today()
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no day YYYY-MM-DD") from error
