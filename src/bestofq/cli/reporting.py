"""`bestofq report` and `bestofq compare`: what stored runs say, as pages, tables and figures."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from bestofq.cli.options import RUNS, Config, Folder, Set
from bestofq.core.decision import Role
from bestofq.core.errors import InputError
from bestofq.reports.agreement import judge_error
from bestofq.reports.by_setting import by_setting, grid_table, setting_table
from bestofq.reports.curve import dev_base, dev_curve
from bestofq.reports.diagnosis import DEFAULTS, Options
from bestofq.reports.figures import bars_svg
from bestofq.reports.judged import JudgeError
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection, read_rows
from bestofq.reports.stats import Measure
from bestofq.reports.table import write_tables
from bestofq.store.store import Store
from bestofq.viewer.export import export

console = Console()
Where = Annotated[Path | None, typer.Argument(help="Folder of the episodes; none: --store.")]
Csv = Annotated[Path | None, typer.Option(help="Folder for the tables as CSV, unrounded.")]
Json = Annotated[Path | None, typer.Option(help="Folder for the tables as JSON, unrounded.")]
Latex = Annotated[Path | None, typer.Option(help="Folder for the tables as LaTeX (booktabs).")]


def report(
    where: Where = None,
    store: Folder = RUNS,
    html: Annotated[
        Path | None, typer.Option(help="Folder for the pages, which open from disk; none: report in STORE.")
    ] = None,
    csv: Csv = None,
    json: Json = None,
    latex: Latex = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Print it: agents, domains, reliability, …; all; may be given again.")
    ] = None,
    run: Annotated[list[str] | None, typer.Option(help="Runs to show; none: all.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Agents or rows to show; none: all.")] = None,
    split: Annotated[str | None, typer.Option(help="train, dev or test; none: all.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The agent or row others are compared with; none: prompting, else the first.")
    ] = None,
    discount: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of the outcome Q is compared with; none: Q's own, if known.")
    ] = None,
    episode: Annotated[
        list[str] | None, typer.Option(help="Whose values to draw (Fig. 12); none: a telling pair.")
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option(help="ROLE=IN,OUT in USD per million tokens, where none is stored.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="A judge whose error is put into the success it told.")] = None,
    judge_run: Annotated[str | None, typer.Option(help="Run with its verdicts beside the environment's.")] = None,
    judge_store: Annotated[Path | None, typer.Option(help="Where that run is; none: the same store.")] = None,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = DEFAULTS.alpha,
    threshold: Annotated[
        float, typer.Option(min=0, help="Least difference in Q of a preference pair (Agent Q, Algorithm 1).")
    ] = DEFAULTS.threshold,
    title: Annotated[str, typer.Option(help="Of the pages.")] = "Best-of-Q",
    config: Config = None,
    set_: Set = None,
) -> None:
    """Tables and figures with intervals from stored runs: pages, CSV, JSON, LaTeX, or the terminal.

    The pages hold every table and figure, and episodes and search trees to step through.
    """
    folder = where or store
    for name, value in (("--judge-run", judge_run), ("--judge-store", judge_store)):
        if value is not None and judge is None:
            raise InputError(f"{name} {shlex.quote(str(value))} needs --judge, the judge whose error is put in")
    with Store.open(folder, read_only=True) as opened:
        baseline = baseline or read_rows(opened, Selection(runs=run, split=split))[0].baseline()
        selection = Selection(runs=run, agents=agent, split=split, baseline=baseline)
        options = Options(
            curve=dev_curve(opened),
            curve_baseline=dev_base(opened),
            prices=dict(map(_price, price or ())) or None,
            discount=discount,
            error=None if judge is None else _judge_error(opened, judge_store, judge_run, judge),
            shown=episode or (),
            alpha=alpha,
            threshold=threshold,
        )
        found = gather(opened, selection, options)
        if html is not None or not (csv or json or latex or table):
            written = export(opened, found, html or folder / "report", title=title)
            console.print(f"written: {written}", soft_wrap=True)
    names = [one.name for one in found.tables]
    if unknown := [name for name in table or () if name not in (*names, "all")]:
        raise InputError(f"there is no table {unknown[0]!r} of these runs: there are {', '.join(names)}")
    for one in found.tables:
        if table and (one.name in table or "all" in table):
            console.print(one)
    for to, ending in ((csv, "csv"), (json, "json"), (latex, "tex")):
        if to is not None:
            console.print(f"written: {len(write_tables(found.tables, to, [ending]))} tables in {to}")


def compare(
    stores: Annotated[list[Path], typer.Argument(help="Folders of episodes, one or several.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="store, run, agent, suite, split, N, model (who proposes), or a setting: epsilon; may be given again."
        ),
    ] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only these runs.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only these agents.")] = None,
    split: Annotated[str | None, typer.Option(help="train, dev or test; none: all.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Row to compare with: 'test, prompting'; none: prompting, else the first.")
    ] = None,
    reference: Annotated[list[str] | None, typer.Option(help="NAME=PERCENT, a line in the picture: human=50.")] = None,
    svg: Annotated[Path | None, typer.Option(help="File for the bars (Agent Q, Figs. 3 and 6).")] = None,
    csv: Csv = None,
    json: Json = None,
    latex: Latex = None,
    markdown: Annotated[Path | None, typer.Option(help="Folder for the tables as Markdown.")] = None,
) -> None:
    """Success by a setting, over one store or several: any ablation (Best-of-Q, Tables 3, 4, 10, 11, 12).

    Each agent has rows of its own; --agent chooses one. Two settings make a grid too, as in Tables 3, 4 and 11: the
    first down, the second across.
    """
    opened: dict[str, Store] = {}
    try:
        for path in stores:
            opened[str(path)] = Store.open(path, read_only=True)
        rows = by_setting(
            opened, by or ["store", "run", "agent"], runs=run, agents=agent, split=split, baseline=baseline
        )
    finally:
        for one in opened.values():
            one.close()
    keys = rows[0].keys  # and `agent`, where there are several
    tables = [setting_table(rows), *([grid_table(rows, *keys)] if len(keys) == 2 else [])]
    for table in tables:
        console.print(table)
    if svg is not None:
        drawn = bars_svg(
            [(row.name, Measure(value=row.success.mean, interval=row.interval)) for row in rows],
            title=tables[0].title,
            references=list(map(_reference, reference or ())),
        )
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(drawn, "utf-8")
        console.print(f"written: {svg}")
    for to, ending in ((csv, "csv"), (json, "json"), (latex, "tex"), (markdown, "md")):
        if to is not None:
            for path in write_tables(tables, to, [ending]):
                console.print(f"written: {path}")


def _judge_error(here: Store, store: Path | None, run: str | None, judge: str) -> JudgeError:
    if run is None:
        raise InputError("--judge needs --judge-run, the run in which `bestofq judge --against-env` measured it")
    if store is None:
        return judge_error(here, run, judge)
    with Store.open(store, read_only=True) as opened:
        return judge_error(opened, run, judge)


def _price(given: str) -> tuple[Role, tuple[float, float]]:
    name, _, amounts = given.partition("=")
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        if role == name:
            try:
                usd_in, usd_out = map(float, amounts.split(","))
            except ValueError:
                break
            return role, (usd_in, usd_out)
    raise InputError(f"--price {shlex.quote(given)} is not ROLE=IN,OUT with a role of {', '.join(roles)}")


def _reference(given: str) -> tuple[str, float]:
    name, _, percent = given.rpartition("=")
    try:
        return name, float(percent) / 100
    except ValueError as error:
        raise InputError(f"--reference {shlex.quote(given)} is not NAME=PERCENT") from error


def alone(arguments: Sequence[str]) -> None:
    """`report` or `compare` without the other commands beside it, and so without the models that they load."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    command = app.command(context_settings={"help_option_names": ["-h", "--help"]})
    command(report) if arguments[0] == "report" else command(compare)
    app(list(arguments[1:]), prog_name=f"bestofq {arguments[0]}")
