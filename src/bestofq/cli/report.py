"""Tables and figures with intervals from stored runs: pages, CSV, JSON, Markdown, or the terminal.

The pages hold every table and figure, and episodes and search trees to step through. With --by, or of several
stores, success by any setting: an ablation (Best-of-Q, Tables 3, 4, 10, 11 and 12).
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from bestofq.cli.options import (
    RUNS,
    Files,
    Place,
    SplitName,
    StoreArgument,
    Stored,
    StorePlaces,
    Text,
    Texts,
    refuse_given,
    with_files,
)
from bestofq.cli.writing import check_out, write_out
from bestofq.core.errors import InputError
from bestofq.core.words import count_of
from bestofq.reports.figures import bars_svg
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection
from bestofq.reports.success import by_setting, success_table
from bestofq.reports.table import Table, write_tables
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.viewer.export import export

_ENDINGS = (".html", ".csv", ".json", ".md")
ByOption = partial(Option, rich_help_panel="With --by or several stores")
TreeOption = partial(Option, rich_help_panel="Search trees")


def report(
    stores: Annotated[
        StorePlaces,
        StoreArgument(metavar="STORE...", help="Where the episodes are; several are compared. Default: --store."),
    ] = None,
    store: Stored = RUNS,
    files: Files = None,
    html: Annotated[Place, Option(help="Folder for the pages. Default: report in the store.")] = None,
    csv: Annotated[Place, Option(help="Folder for the tables as CSV, unrounded.")] = None,
    json: Annotated[Place, Option(help="Folder for the tables as JSON, unrounded.")] = None,
    markdown: Annotated[Place, Option(help="Folder for the tables as Markdown.")] = None,
    table: Annotated[Texts, Option(help="Print it: agents, domains, reliability, … or all. Repeatable.")] = None,
    run: Annotated[Texts, Option(help="Only this run. Repeatable.")] = None,
    agent: Annotated[Texts, Option(help="Only this agent or row. Repeatable.")] = None,
    split: Annotated[SplitName | None, Option(help="Only this split.")] = None,
    baseline: Annotated[
        Text, Option(help="Agent or row, such as 'test, prompting', to compare with. Default: prompting, or the first.")
    ] = None,
    by: Annotated[
        Texts,
        ByOption(
            help="Rows by store, run, agent, suite, split, N, model (who proposes), or a setting such as epsilon. "
            "Repeatable."
        ),
    ] = None,
    svg: Annotated[Place, ByOption(help="File for the bars (Agent Q, Figs. 3 and 6).")] = None,
    alpha: Annotated[
        float, TreeOption(min=0, max=1, help="Weight of the searched Q against feedback's (Agent Q, Eq. 10).")
    ] = 0.5,
    threshold: Annotated[float, TreeOption(min=0, help="Least difference in Q of a pair (Algorithm 1).")] = 0.2,
) -> None:
    tables_to = {"csv": csv, "json": json, "md": markdown}
    for option, path in {"html": html, "csv": csv, "json": json, "markdown": markdown}.items():
        if path is not None and path.suffix in _ENDINGS:
            raise InputError(
                f"--{option} is a folder, for a file each table or page, and {path} is a file's name: give "
                f"--{option} {path.with_suffix('')}"
            )
    places = with_files(stores or [store], files)
    selection = Selection(runs=run, agents=agent, split=split, baseline=baseline)
    if by or len(places) > 1:
        refuse_given("with --by or several stores", html=html, table=table)
        check_out(svg)
        with ExitStack() as stack:
            stores_by_name = {str(place): stack.enter_context(Store.open(place, read_only=True)) for place in places}
            found = by_setting(stores_by_name, by or ["store", "run", "agent"], selection)
        compared = success_table(found)
        console.print(compared)
        if svg is not None:
            bars = [(row.agent, row.rate) for row in found.rows]
            write_out(svg, bars_svg(bars, title=compared.title, baseline=baseline or BASELINE))
        _write(tables_to, [compared])
        return
    refuse_given("without --by or several stores", svg=svg)
    with Store.open(places[0], read_only=True) as opened:
        gathered = gather(opened, selection, alpha=alpha, threshold=threshold)
        if html is not None or not (table or any(tables_to.values())):
            written = export(opened, gathered, html or places[0] / "report", title="Best-of-Q")
            console.print(f"written: {written}", soft_wrap=True)
    names, printed = [each.name for each in gathered.tables], table or ()
    if unknown := [name for name in printed if name not in (*names, "all")]:
        raise InputError(f"there is no table {unknown[0]!r} of these runs: there are {', '.join(names)}")
    for each in gathered.tables:
        if each.name in printed or "all" in printed:
            console.print(each)
    _write(tables_to, gathered.tables)


def _write(folders: Mapping[str, Path | None], tables: Sequence[Table]) -> None:
    for ending, folder in folders.items():
        if folder is not None:
            written = write_tables(tables, folder, [ending])
            console.print(f"written: {count_of(len(written), 'table')} in {folder}")
