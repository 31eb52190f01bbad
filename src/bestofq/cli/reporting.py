"""`bestofq report`: what stored runs say, as pages, tables and figures."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

from pydantic import Field, TypeAdapter, ValidationError

from bestofq.cli.options import Reporting, console
from bestofq.cli.writing import check_out, draw, write_out
from bestofq.core.errors import InputError
from bestofq.core.usage import Role
from bestofq.reports.by_setting import by_setting, setting_table
from bestofq.reports.curve import dev_base, dev_curve
from bestofq.reports.diagnosis import DEFAULTS, Options
from bestofq.reports.figures import bars_svg
from bestofq.reports.report import gather
from bestofq.reports.rows import BASELINE, Selection, read_rows
from bestofq.reports.table import Table, write_tables
from bestofq.store.store import Store
from bestofq.viewer.export import export
from bestofq.viewer.pages import figure_file

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_ENDINGS = (".html", ".csv", ".json", ".md", ".png", ".pdf")
PRICES = TypeAdapter(dict[Role, tuple[Dollars, Dollars]])


def check_folders(wanted: Reporting) -> None:
    """Before anything is read: InputError where a folder is named as a file."""
    for option in ("html", "csv", "json", "markdown", "png", "pdf"):
        path: Path | None = getattr(wanted, option)
        if path is not None and path.suffix in _ENDINGS:
            raise InputError(
                f"--{option} is a folder, for a file each table, figure or page, and {path} is a file's name: give "
                f"--{option} {path.with_suffix('')}"
            )


def report_store(wanted: Reporting) -> None:
    """One store's tables and figures: those printed, those written, and the pages unless others were asked for."""
    (folder,) = wanted.stores or [wanted.store]
    printed = wanted.table or ()
    options = Options(
        prices=_prices(wanted.price or ()),
        discount=wanted.discount,
        shown=wanted.episode or (),
        alpha=DEFAULTS.alpha if wanted.alpha is None else wanted.alpha,
        threshold=DEFAULTS.threshold if wanted.threshold is None else wanted.threshold,
    )
    with Store.open(folder, read_only=True) as store:
        selection = _selection(wanted)
        if wanted.baseline is None:
            selection = replace(selection, baseline=read_rows(store, replace(selection, agents=None))[0].baseline())
        found = gather(store, selection, replace(options, curve=dev_curve(store), curve_baseline=dev_base(store)))
        others = (wanted.csv, wanted.json, wanted.markdown, wanted.png, wanted.pdf, wanted.table)
        if wanted.html is not None or not any(others):
            written = export(store, found, wanted.html or folder / "report", title=wanted.title)
            console.print(f"written: {written}", soft_wrap=True)
    names = [one.name for one in found.tables]
    if unknown := [name for name in printed if name not in (*names, "all")]:
        raise InputError(f"there is no table {unknown[0]!r} of these runs: there are {', '.join(names)}")
    for one in found.tables:
        if one.name in printed or "all" in printed:
            console.print(one)
    _write(wanted, found.tables)
    for ending, to in ((".png", wanted.png), (".pdf", wanted.pdf)):
        if to is not None:
            draw({(to / figure_file(figure)).with_suffix(ending): str(figure.svg) for figure in found.figures})
            console.print(f"written: {len(found.figures)} figures in {to}")


def compare_stores(wanted: Reporting) -> None:
    """Success by settings, over one store or several; each agent has rows of its own."""
    check_out(wanted.svg)
    with ExitStack() as stack:
        folders = wanted.stores or [wanted.store]
        opened = {str(path): stack.enter_context(Store.open(path, read_only=True)) for path in folders}
        rows = by_setting(opened, wanted.by or ["store", "run", "agent"], _selection(wanted))
    table = setting_table(rows)
    console.print(table)
    if wanted.svg is not None:
        drawn = bars_svg(
            [(row.agent, row.rate) for row in rows],
            title=table.title,
            references=list(map(_reference, wanted.reference or ())),
            baseline=wanted.baseline or BASELINE,
        )
        write_out(wanted.svg, drawn)
    _write(wanted, [table])


def _selection(wanted: Reporting) -> Selection:
    return Selection(runs=wanted.run, agents=wanted.agent, split=wanted.split, baseline=wanted.baseline)


def _write(wanted: Reporting, tables: Sequence[Table]) -> None:
    """All tables in each format that has a folder."""
    folders = {"csv": wanted.csv, "json": wanted.json, "md": wanted.markdown}
    for ending, to in folders.items():
        if to is not None:
            console.print(f"written: {len(write_tables(tables, to, [ending]))} tables in {to}")


def _prices(given: Sequence[str]) -> dict[Role, tuple[float, float]] | None:
    """ROLE=IN,OUT each, in USD per million tokens; None where none is given."""
    prices: dict[Role, tuple[float, float]] = {}
    for one in given:
        name, _, amounts = one.partition("=")
        try:
            prices |= PRICES.validate_python({name: tuple(amounts.split(","))})
        except ValidationError:
            raise InputError(
                f"--price {shlex.quote(one)} is not ROLE=IN,OUT with a role of {', '.join(get_args(Role))} and amounts "
                "from 0"
            ) from None
    return prices or None


def _reference(given: str) -> tuple[str, float]:
    name, _, percent = given.rpartition("=")
    try:
        share = float(percent) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"--reference {shlex.quote(given)} is not NAME=PERCENT, from 0 to 100")
    return name, share
