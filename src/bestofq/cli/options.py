"""Options that several commands share, each with one name and one meaning; and those of the commands that have many, as
their work reads them. Loads no model, browser or database."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from typer import Argument, BadParameter, Option

from bestofq.core.errors import InputError
from bestofq.store.location import Location

console = Console()
RUNS, WEB, IMPORTED, SERVED = (Location(f"runs/{name}") for name in ("webshop", "web", "imported", "serve"))
SUITES = ("webshop", "booking", "quirks", "miniwob", "webvoyager")
LOGS = ("jsonl", "browser-use", "atif", "chat", "inspect", "webvoyager", "open-operator-evals", "go-browse")


_STORES = ("stores", "where", "store", "judge_store")


def some_tasks(tasks: str | None) -> str | None:
    """As given. BadParameter for 0, a negative number, or nothing."""
    if tasks is not None and (not tasks.strip() or (re.fullmatch(r"\s*[+-]?\d+\s*", tasks) and int(tasks) < 1)):
        raise BadParameter(f"{tasks!r} are no tasks: give a number from 1, or globs of names")
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
    Text,
    Option("--tasks", callback=some_tasks, help="How many at most, or globs of their names: 'click-*,enter-*'."),
]
SplitName = Literal["train", "dev", "test"]
Split = Annotated[SplitName, Option("--split", help="Which tasks.")]
LogTo = Annotated[
    Text,
    Option(
        "--log-to",
        metavar="NAME[:WHERE]",
        help="Keep the training curves too: tensorboard[:FOLDER], wandb[:PROJECT] or mlflow[:URI].",
        autocompletion=lambda: ["tensorboard", "wandb", "mlflow"],
    ),
]
Cluster = Annotated[
    Text,
    Option(
        "--cluster",
        metavar="ADDRESS",
        help="Play on a Ray cluster: auto, host:port, ray://host:port, or local. Needs a database in --store.",
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="Say what would be done, and do nothing.")]
Budget = Annotated[float | None, Option("--budget", min=0, help="USD at most; the same command continues.")]
ByOption = partial(Option, rich_help_panel="With --by or several stores")
PriceOption = partial(Option, rich_help_panel="Costs and judges")
TreeOption = partial(Option, rich_help_panel="Search trees")
PairOption = partial(Option, rich_help_panel="Preferences")
EndpointOption = partial(
    Option, rich_help_panel="With --base-url: compare an endpoint's embeddings with those of the same model here"
)


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
    cluster: Cluster = None
    budget: Budget = None
    dry_run: DryRun = False


@dataclass(frozen=True, kw_only=True)
class PageRun(CommonOptions):
    """`bestofq run`."""

    goal: Annotated[str, Argument(help="What you want done, in words.")]
    url: Annotated[str, Option(help="The page to begin on.")]
    model: Model = None
    base_url: BaseUrl = None
    agent: Annotated[Text, Option(help="Kind of agent. Default: best-of-q with --q, else prompting.")] = None
    q: Annotated[Place, Option(help="Folder of a Q-function for this model.")] = None
    n: N = None
    steps: Annotated[int | None, Option(min=1, help="Steps at most. Default: suite.step_limit, else 30.")] = None
    store: Stored = WEB
    files: Files = None
    hosts: Annotated[str, Option(help="Hosts to allow besides the page's own: a.com,*.b.com")] = ""
    any_host: Annotated[bool, Option("--any-host", help="Allow every host.")] = False
    yes: Annotated[bool, Option("--yes", help="Do what seems irreversible without asking.")] = False
    ask_forms: Annotated[
        bool, Option("--ask-forms", help="Ask before whatever sends a form, too, whatever its button is called.")
    ] = False
    headed: Annotated[bool, Option("--headed", help="Show the browser's window.")] = False
    localizer: Annotated[
        Text,
        Option(
            help="page, text, vision, page+text or page+vision: the model names elements in words, this finds them."
        ),
    ] = None
    screenshots: Annotated[bool, Option(help="Keep a picture of every step; chat models see it.")] = True


@dataclass(frozen=True, kw_only=True)
class Evaluation(CommonOptions):
    """`bestofq eval`."""

    agents: Annotated[
        Text, Option(help="Comma-separated. Default: prompting,random,picker,best-of-q,prior as far as they can play.")
    ] = None
    q: Q = None
    split: Split = "dev"
    tasks: Tasks = None
    runs: Annotated[int, Option(min=1, help="Passes over the tasks.")] = 3
    n: N = None
    run: Annotated[str, Option(help="Name of the run.")] = "eval"
    out: Annotated[Place, Option(help="JSON file for the results.")] = None


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """`bestofq report`."""

    stores: Annotated[
        StorePlaces,
        StoreArgument(metavar="STORE...", help="Where the episodes are; several are compared. Default: --store."),
    ] = None
    store: Stored = RUNS
    files: Files = None
    html: Annotated[Place, Option(help="Folder for the pages. Default: report in the store.")] = None
    csv: Annotated[Place, Option(help="Folder for the tables as CSV, unrounded.")] = None
    json: Annotated[Place, Option(help="Folder for the tables as JSON, unrounded.")] = None
    markdown: Annotated[Place, Option(help="Folder for the tables as Markdown.")] = None
    png: Annotated[Place, Option(help="Folder for the figures as PNG.")] = None
    pdf: Annotated[Place, Option(help="Folder for the figures as PDF.")] = None
    table: Annotated[Texts, Option(help="Print it: agents, domains, reliability, … or all. Repeatable.")] = None
    run: Annotated[Texts, Option(help="Only this run. Repeatable.")] = None
    agent: Annotated[Texts, Option(help="Only this agent or row. Repeatable.")] = None
    split: Annotated[SplitName | None, Option(help="Only this split.")] = None
    baseline: Annotated[
        Text, Option(help="Agent or row, such as 'test, prompting', to compare with. Default: prompting, or the first.")
    ] = None
    episode: Annotated[
        Texts, Option(help="Id of one whose values to draw (Fig. 12). Default: two that differ clearly.")
    ] = None
    title: Annotated[str, Option(help="Of the pages.")] = "Best-of-Q"
    by: Annotated[
        Texts,
        ByOption(
            help="Rows by store, run, agent, suite, split, N, model (who proposes), or a setting such as epsilon. "
            "Repeatable."
        ),
    ] = None
    svg: Annotated[Place, ByOption(help="File for the bars (Agent Q, Figs. 3 and 6): .svg, .png or .pdf.")] = None
    reference: Annotated[Texts, ByOption(help="NAME=PERCENT, a line among the bars: human=50.")] = None
    discount: Annotated[
        float | None, Option(min=0, max=1, help="Of the outcome Q is compared with. Default: Q's own, if known.")
    ] = None
    price: Annotated[Texts, PriceOption(help="ROLE=IN,OUT in USD per million tokens, where none is stored.")] = None
    alpha: Annotated[
        float | None, TreeOption(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = None
    threshold: Annotated[float | None, TreeOption(min=0, help="Least difference in Q of a pair (Algorithm 1).")] = None


@dataclass(frozen=True, kw_only=True)
class Judging:
    """`bestofq judge`."""

    run: Annotated[str, Option(help="The run to judge.")]
    model: Annotated[
        str,
        Option("--model", help="The judge: the endpoint's name for it; with --base-url local directory or hub name."),
    ]
    base_url: Annotated[
        Text, Option("--base-url", help="An OpenAI-compatible endpoint, with its /v1; local: the model is loaded here.")
    ] = None
    store: Stored = RUNS
    files: Files = None
    agent: Annotated[Text, Option(help="Only this agent's episodes.")] = None
    screenshots: Annotated[int | None, Option(min=0, help="Shown, the last ones; 0: text only.")] = None
    criteria: Annotated[Literal["opentable"] | None, Option(help="opentable: the four criteria of Agent Q, 6.1.")] = (
        None
    )
    against_env: Annotated[bool, Option("--against-env", help="How well it agrees with the environment.")] = False
    again: Annotated[bool, Option("--again", help="Also what a judge has judged already.")] = False
    limit: Annotated[int | None, Option(min=1, help="So many episodes at most.")] = None
    concurrency: Annotated[int, Option(min=1, help="Episodes judged at once; with --cluster in each process.")] = 16
    set_: Set = None
    cluster: Cluster = None
    out: Annotated[Place, Option(help="JSON file for the result.")] = None
    budget: Budget = None
    dry_run: DryRun = False


@dataclass(frozen=True, kw_only=True)
class SuiteTasks(CommonOptions):
    """`bestofq tasks`."""

    suite: SuiteName = None
    split: Annotated[Text, Option(help="train, dev or test. Default: each.")] = None
    tasks: Tasks = None
    data: Data = None
    config: Config = None
    set_: Set = None
    today: Annotated[Text, Option(help="YYYY-MM-DD, for dates in tasks. Default: today.")] = None


@dataclass(frozen=True, kw_only=True)
class Log:
    """`bestofq import`."""

    kind: Annotated[
        str,
        Argument(
            metavar="KIND", help=f"{', '.join(LOGS)}, or my_package.my_module:reader.", autocompletion=lambda: [*LOGS]
        ),
    ]
    path: Annotated[Path, Argument(metavar="PATH", help="The log's file, or a folder with its files.")]
    store: Stored = IMPORTED
    files: Files = None
    run: Annotated[str, Option(help="Name of the run.")] = "imported"
    split: Annotated[
        SplitName | None, Option(help="train, dev or test. Default: train; of ATIF that bestofq wrote, its own.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Export:
    """`bestofq export`."""

    kind: Annotated[
        Literal["steps", "preferences", "conversations", "atif"],
        Argument(metavar="KIND", help="steps, preferences, conversations or atif."),
    ]
    where: Annotated[Location, StoreArgument(metavar="STORE", help=A_STORE)]
    out: Annotated[Path, Option(help="File that ends in .parquet or .jsonl; of atif a new folder.")]
    files: Files = None
    run: Annotated[Text, Option(help="Only this run.")] = None
    agent: Annotated[Text, Option(help="Only this agent's episodes.")] = None
    split: Annotated[SplitName | None, Option(help="Only this split.")] = None
    failures: Annotated[bool, Option("--failures", help="Conversations: also those that did not succeed.")] = False
    source: Annotated[
        Literal["trees", "q"] | None,
        PairOption(help="Two children of a search tree's node (the default), or candidates that a Q-function scored."),
    ] = None
    alpha: Annotated[
        float | None, PairOption(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = None
    threshold: Annotated[float | None, PairOption(min=0, help="Least difference in Q of a pair (Algorithm 1).")] = None


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """`bestofq doctor`."""

    data: Data = None
    store: Annotated[StorePlace, StoreOption(help="Compare all of it with what was written.")] = None
    files: Files = None
    repair: Annotated[bool, Option("--repair", help="With --store: leave out what is damaged; keep the old file.")] = (
        False
    )
    base_url: BaseUrl = None
    model: Annotated[Text, EndpointOption("--model", help="The endpoint's name for its model.")] = None
    local: Annotated[Text, EndpointOption(help="The same model's directory or hub name. Default: --model.")] = None
    out: Annotated[Path, EndpointOption(help="File for the agreement: model.embed_agreement.")] = Path("agreement.json")
    pixels: Annotated[int | None, EndpointOption(min=0, help="Largest picture area it sees; 0: texts only.")] = None
    pixels_least: Annotated[int | None, EndpointOption(min=0, help="Smallest picture area it sees.")] = None
    device: Annotated[str, EndpointOption(help="Where the model in this process runs.")] = "auto"


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes the fields of a command's first parameter, a dataclass, options of it: after its own those of the class,
    and last these of `Given`, by default all, in this order."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        first, *own = signature(command).parameters.values()
        known = signature(first.annotation).parameters
        mine = () if first.annotation is CommonOptions else first.annotation.__annotations__
        given = names or tuple(name for name in signature(CommonOptions).parameters if name in known)
        given += ("files",) if "store" in given and "files" not in given else ()
        held = {name: known[name] for name in (*mine, *given)}

        @wraps(command)
        def run(**values: Any) -> None:
            command(first.annotation(**_with_files({name: values.pop(name) for name in held})), **values)

        parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own, *held.values())]
        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return wrap


def _with_files(values: dict[str, Any]) -> dict[str, Any]:
    """The options, each database among them with the place of its files. ConfigError where there is none."""
    if (files := values.get("files")) is None:
        return values
    stores = {name: given for name in _STORES if (given := values.get(name))}
    each = [one for given in stores.values() for one in (given if isinstance(given, list) else [given])]
    if all(one.is_folder for one in each):
        Location.of(each[0] if each else RUNS, files)

    def to_location(one: Location) -> Location:
        return one if one.is_folder else Location.of(one, files)

    some = {
        name: [*map(to_location, one)] if isinstance(one, list) else to_location(one) for name, one in stores.items()
    }
    return values | some


def refuse_given(options: object, why: str, *names: str) -> None:
    """InputError on the first of these options that was given: it would change nothing."""
    for name in names:
        if getattr(options, name):
            raise InputError(f"--{name.strip('_').replace('_', '-')} has no effect {why}: leave it out")
