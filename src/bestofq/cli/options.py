"""The options that several commands share: each has one name and one meaning. Loads no model, browser or database."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from bestofq.core.errors import InputError

console = Console()
RUNS = Path("runs/webshop")
SUITES = ("webshop", "booking", "quirks", "miniwob", "webvoyager")

SuiteName = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE",
        help=f"{', '.join(SUITES)}, or my_package.my_module:make_suite. Default: suite.name of the settings.",
        autocompletion=lambda: [*SUITES],
    ),
]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file with settings (bestofq settings).")]
Set = Annotated[list[str] | None, typer.Option("--set", help="One setting, a.b=c. Repeatable.")]
Folder = Annotated[Path | None, typer.Option("--store", help="Folder of the episodes. Default: runs/SUITE.")]
Stored = Annotated[Path, typer.Option("--store", help="Folder of the episodes.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Your files: WebShop's folder, WebVoyager's jsonl. Default: the synthetic shop."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="With --base-url the endpoint's name for its model, else a directory or hub name."),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint, with its /v1.")]
Q = Annotated[Path | None, typer.Option("--q", help="Folder of the Q-function. Default: the one that ships.")]
N = Annotated[int | None, typer.Option("--n", min=1, help="Candidates a step. Default: n_candidates.")]
Tasks = Annotated[
    str | None, typer.Option("--tasks", help="How many at most, or globs of their names: 'click-*,enter-*'.")
]
SplitName = Literal["train", "dev", "test"]
Split = Annotated[SplitName, typer.Option("--split", help="Which tasks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Budget = Annotated[
    float | None,
    typer.Option("--budget", min=0, help="USD at most for the endpoints' replies; the same command continues."),
]


@dataclass(frozen=True, kw_only=True)
class Given:
    """The options of all commands that make models from settings."""

    suite: SuiteName = None
    model: Model = None
    base_url: BaseUrl = None
    data: Data = None
    config: Config = None
    set_: Set = None
    store: Folder = None
    budget: Budget = None
    dry_run: DryRun = False


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these fields of `Given`, by default all, as its last options; its first parameter holds them."""
    shared = {name: one for name, one in signature(Given).parameters.items() if name in names or not names}

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            command(Given(**{name: values.pop(name) for name in shared}), **values)

        _, *own = signature(command).parameters.values()
        parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own, *shared.values())]
        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return wrap


def refuse_given(why: str, **options: object) -> None:
    """InputError on the first option that was given and would change nothing."""
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.strip('_').replace('_', '-')} has no effect {why}: leave it out")
