"""Success and steps by two settings as a grid, one down and one across (Best-of-Q, Tables 3, 4 and 11)."""

from collections.abc import Sequence

from bestofq.core.errors import InputError
from bestofq.reports.by_setting import SettingRow, in_file_name
from bestofq.reports.origin import together
from bestofq.reports.stats import Difference, Estimate, Interval, Measure
from bestofq.reports.table import Cell, Column, Row, Table


def grid_table(rows: Sequence[SettingRow], down: str, across: str) -> Table:
    """Rows of `by_setting` over the keys `down` and `across`, in the order in which their values first come: for each
    value down its success, steps and difference, a column a value across. InputError where rows have other than two
    values."""
    if any(len(row.values) != 2 for row in rows):
        raise InputError(f"a grid is of two settings: rows of {len(rows[0].values)} are given")
    cells: dict[tuple[str, ...], SettingRow] = {row.values: row for row in rows}
    heads = list(dict.fromkeys(row.values[1] for row in rows))
    found = []
    for value in dict.fromkeys(row.values[0] for row in rows):
        here = [cells.get((value, head)) for head in heads]
        origin = together([row.origin for row in here if row is not None])
        for name, percent, signed, shown in (
            ("success %", True, False, [_success(row) for row in here]),
            ("steps for success", False, False, [_steps(row) for row in here]),
            ("difference %", True, True, [_difference(row) for row in here]),
        ):
            if any(cell is not None for cell in shown):
                found.append(Row(cells=(value, name, *shown), percent=percent, signed=signed, origin=origin))
    return Table(
        name=f"grid-{in_file_name(down)}-{in_file_name(across)}",
        title=f"Success by {down} (down) and {across} (across)",
        columns=(Column(name=down), Column(name="number"), *(Column(name=f"{across} {head}") for head in heads)),
        rows=tuple(found),
        notes=(
            "Mean ± standard error over runs, in brackets 95 % bootstrap over tasks; –: no such episode.",
            "Difference: to the cell without one, paired by task.",
        ),
    )


def _success(row: SettingRow | None) -> Cell:
    return None if row is None else _measure(row.success, row.interval)


def _steps(row: SettingRow | None) -> Cell:
    steps = None if row is None else row.steps_for_success
    return None if row is None or steps is None else _measure(steps, row.steps_interval)


def _difference(row: SettingRow | None) -> Difference | None:
    return None if row is None else row.difference


def _measure(estimate: Estimate, interval: Interval | None) -> Measure:
    return Measure(value=estimate.mean, error=estimate.error, interval=interval)
