"""`bestofq report`: what stored runs say, as pages, tables and figures."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple, get_args

from bestofq.cli.options import console
from bestofq.cli.writing import write_out
from bestofq.core.errors import InputError
from bestofq.core.usage import Role
from bestofq.reports.agreement import judge_error
from bestofq.reports.by_setting import by_setting, grid_table, setting_table
from bestofq.reports.curve import dev_base, dev_curve
from bestofq.reports.diagnosis import Options
from bestofq.reports.figures import bars_svg
from bestofq.reports.judged import JudgeError
from bestofq.reports.report import gather
from bestofq.reports.rows import Selection, read_rows
from bestofq.reports.stats import Measure
from bestofq.reports.table import Table, write_tables
from bestofq.store.store import Store
from bestofq.viewer.export import export


class Written(NamedTuple):
    csv: Path | None
    json: Path | None
    latex: Path | None
    markdown: Path | None

    def write(self, tables: Sequence[Table]) -> None:
        """All tables in each format that has a folder."""
        for to, ending in zip(self, ("csv", "json", "tex", "md"), strict=True):
            if to is not None:
                console.print(f"written: {len(write_tables(tables, to, [ending]))} tables in {to}")


def report_store(
    folder: Path,
    selection: Selection,
    options: Options,
    *,
    html: Path | None,
    printed: Sequence[str],
    title: str,
    written: Written,
) -> None:
    """One store's tables and figures: those printed, those written, and the pages unless others were asked for."""
    with Store.open(folder, read_only=True) as opened:
        first = read_rows(opened, Selection(runs=selection.runs, split=selection.split))[0]
        selection = replace(selection, baseline=selection.baseline or first.baseline())
        options = replace(options, curve=dev_curve(opened), curve_baseline=dev_base(opened))
        found = gather(opened, selection, options)
        if html is not None or not (any(written) or printed):
            console.print(f"written: {export(opened, found, html or folder / 'report', title=title)}", soft_wrap=True)
    names = [one.name for one in found.tables]
    if unknown := [name for name in printed if name not in (*names, "all")]:
        raise InputError(f"there is no table {unknown[0]!r} of these runs: there are {', '.join(names)}")
    for one in found.tables:
        if one.name in printed or "all" in printed:
            console.print(one)
    written.write(found.tables)


def compare_stores(
    stores: Sequence[Path],
    by: Sequence[str] | None,
    selection: Selection,
    *,
    svg: Path | None,
    references: Sequence[str],
    written: Written,
) -> None:
    """Success by settings, over one store or several; each agent has rows of its own."""
    with ExitStack() as stack:
        opened = {str(path): stack.enter_context(Store.open(path, read_only=True)) for path in stores}
        rows = by_setting(
            opened,
            by or ["store", "run", "agent"],
            runs=selection.runs,
            agents=selection.agents,
            split=selection.split,
            baseline=selection.baseline,
        )
    keys = rows[0].keys  # and `agent`, where there are several
    tables = [setting_table(rows), *([grid_table(rows, *keys)] if len(keys) == 2 else [])]
    for table in tables:
        console.print(table)
    if svg is not None:
        drawn = bars_svg(
            [(row.name, Measure(value=row.success.mean, interval=row.interval)) for row in rows],
            title=tables[0].title,
            references=list(map(_reference, references)),
        )
        write_out(svg, drawn)
    written.write(tables)


def judge_error_of(judge: str | None, run: str | None, store: Path) -> JudgeError | None:
    """The error of a judge, as measured in a run of that store."""
    if judge is None:
        return None
    if run is None:
        raise InputError("--judge needs --judge-run, the run in which `bestofq judge --against-env` measured it")
    with Store.open(store, read_only=True) as opened:
        return judge_error(opened, run, judge)


def prices_of(given: Sequence[str]) -> dict[Role, tuple[float, float]] | None:
    """ROLE=IN,OUT each, in USD per million tokens; None where none is given."""
    prices = {}
    roles: dict[str, Role] = {role: role for role in get_args(Role)}
    for one in given:
        name, _, amounts = one.partition("=")
        try:
            usd_in, usd_out = map(float, amounts.split(","))
            if not (0 <= usd_in < inf and 0 <= usd_out < inf):
                raise ValueError
            prices[roles[name]] = usd_in, usd_out
        except (ValueError, KeyError):
            raise InputError(
                f"--price {shlex.quote(one)} is not ROLE=IN,OUT with a role of {', '.join(roles)} and amounts from 0"
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
