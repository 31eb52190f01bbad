"""Options that several commands share, each with one name and one meaning. Loads no model, browser or database."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from bestofq.core.errors import InputError
from bestofq.store.location import Location

RUNS, WEB, IMPORTED, SERVED = (Location(f"runs/{name}") for name in ("webshop", "web", "imported", "serve"))
SUITES = ("webshop", "booking", "quirks", "miniwob", "webvoyager")
LOGS = ("jsonl", "browser-use", "atif", "chat", "inspect", "webvoyager")


def some_tasks(tasks: str | None) -> str | None:
    """As given. BadParameter for 0, a negative number, or nothing."""
    if tasks is not None and (not tasks.strip() or (re.fullmatch(r"\s*[+-]?\d+\s*", tasks) and int(tasks) < 1)):
        raise BadParameter(f"{tasks!r} is not a number of tasks: give one from 1, or globs of names")
    return tasks


# What an option holds that may be left out, or given several times:
Text = str | None
Texts = list[str] | None
Place = Path | None
Places = list[Path] | None
StorePlace = Location | None
StorePlaces = list[Location] | None

StoreOption = partial(Option, parser=Location.of, metavar="STORE")
StoreArgument = partial(Argument, parser=Location.of)
A_STORE = "Folder of the episodes, or the address of a PostgreSQL database."

SuiteName = Annotated[
    Text,
    Argument(
        metavar="SUITE",
        help=f"{', '.join(SUITES)}, or my_package.my_module:make_suite. Default: suite.name of the settings.",
        autocompletion=lambda: [*SUITES],
    ),
]
Config = Annotated[Place, Option("--config", help="TOML file with settings (bestofq settings).")]
Set = Annotated[Texts, Option("--set", help="One setting, a.b=c. Repeatable.")]
Folder = Annotated[StorePlace, StoreOption("--store", help=f"{A_STORE} Default: runs/SUITE.")]
Stored = Annotated[Location, StoreOption("--store", help=A_STORE)]
Files = Annotated[
    Text, Option("--files", help="With a database: a folder or s3://bucket/prefix of its pictures and vectors.")
]
Data = Annotated[Place, Option("--data", help="WebShop's folder or WebVoyager's jsonl. Default: the synthetic shop.")]
Model = Annotated[Text, Option("--model", help="Directory or hub name; with --base-url the endpoint's name for it.")]
BaseUrl = Annotated[Text, Option("--base-url", help="An OpenAI-compatible endpoint, with its /v1.")]
Q = Annotated[Place, Option("--q", help="Folder of the Q-function. Default: the one that ships.")]
N = Annotated[int | None, Option("--n", min=1, help="Candidates a step. Default: n_candidates.")]
Tasks = Annotated[
    Text, Option("--tasks", callback=some_tasks, help="How many at most, or globs of their names: 'click-*,enter-*'.")
]
SplitName = Literal["train", "dev", "test"]
Split = Annotated[SplitName, Option("--split", help="Which tasks.")]
LogTo = Annotated[Place, Option("--log-to", help="Folder for the training curves, as TensorBoard reads them.")]
SearchRun = Annotated[str, Option("--run", help="Name of the searches.")]
DryRun = Annotated[bool, Option("--dry-run", help="Say what would be done, and do nothing.")]
Budget = Annotated[float | None, Option("--budget", min=0, help="USD at most; the same command continues.")]


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The options of all commands that make models from settings."""

    suite: SuiteName = None
    model: Model = None
    base_url: BaseUrl = None
    data: Data = None
    config: Config = None
    set_: Set = None
    store: Folder = None
    files: Files = None
    budget: Budget = None
    dry_run: DryRun = False


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make these fields of a command's first parameter, `CommonOptions`, options of the command; by default all."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = signature(command).parameters.values()
        common = signature(CommonOptions).parameters
        taken = [*(names or common), *(("files",) if "store" in names else ())]

        @wraps(command)
        def run(**values: Any) -> None:
            command(CommonOptions(**{name: values.pop(name) for name in taken}), **values)

        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*own, *(common[name] for name in taken))]
        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return wrap


def with_files(places: Sequence[Location], files: str | None) -> list[Location]:
    """Give `files` to each database among the places. ConfigError if there is none."""
    if files is not None and all(place.is_folder for place in places):
        Location.of(places[0], files)
    return [place if place.is_folder else Location.of(place, files) for place in places]


def refuse_given(why: str, **options: object) -> None:
    """InputError on the first of these options that has a value: it would change nothing."""
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.strip('_').replace('_', '-')} has no effect {why}: leave it out")
