"""A table with intervals and with where its rows come from, for terminal, papers and other programs.

CSV and JSON are unrounded, and each row names its runs, commit, model, seed, N and command; LaTeX says so in a comment
after the row.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from math import isinf
from pathlib import Path

from pydantic import ConfigDict
from rich.table import Table

from bestofq.core.noun import Noun
from bestofq.reports import origin
from bestofq.reports.origin import Origin
from bestofq.reports.stats import Difference, Estimate, Measure
from bestofq.reports.table import pipe_row

Cell = Measure | Estimate | Difference | int | float | str | None


class Column(Noun):
    """A column; `percent`: its values are shares and shown times 100."""

    name: str
    percent: bool = False
    signed: bool = False
    digits: int | None = 1  # after the point; None: three digits that count


class Row(Noun):
    """One value a column; `origin` is None where the row comes from no run. In a table whose rows are different numbers
    `percent` and `signed` hold for the row, beside what its columns say."""

    cells: tuple[Cell, ...]
    percent: bool = False
    signed: bool = False
    origin: Origin | None = None


class Sheet(Noun):
    """A table; `name` names its files."""

    model_config = ConfigDict(ser_json_inf_nan="strings")  # JSON has no infinity: "Infinity" reads back

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The rows, rounded."""
        return tuple(
            tuple(_text(cell, column, row) for cell, column in zip(row.cells, self.columns, strict=True))
            for row in self.rows
        )

    @property
    def words(self) -> tuple[bool, ...]:
        """By column, whether it holds words, not numbers."""
        return tuple(any(isinstance(row.cells[i], str) for row in self.rows) for i in range(len(self.columns)))

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(column.name + (" %" if column.percent else "") for column in self.columns)

    def to_rich(self) -> Table:
        """For the terminal."""
        table = Table(title=self.title, caption="\n".join(self.notes), caption_justify="left")
        for head, words in zip(self.heads, self.words, strict=True):
            table.add_column(head, justify="left" if words else "right", overflow="fold")
        for texts in self.texts():
            table.add_row(*(text.replace("[", r"\[") for text in texts))
        return table

    def to_markdown(self) -> str:
        """A GitHub table, its notes below; ends with a line break."""
        lines = [pipe_row(self.heads), pipe_row(["---" if words else "--:" for words in self.words])]
        lines += [pipe_row([text.replace("|", r"\|") for text in texts]) for texts in self.texts()]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]) + "\n"

    def to_json(self) -> str:
        """Everything, unrounded; `Sheet.model_validate_json` reads it back."""
        return self.model_dump_json(indent=1) + "\n"

    def to_csv(self) -> str:
        """Unrounded, shares in [0, 1]; a measure takes three columns, its value and its bounds."""
        parts = [_parts(row.cells[i] for row in self.rows) for i in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads = [
            column.name + (f" {part}" if part else "")
            for column, names in zip(self.columns, parts, strict=True)
            for part in names
        ]
        writer.writerow([*heads, *origin.COLUMNS])
        for row in self.rows:
            cells = [v for cell, names in zip(row.cells, parts, strict=True) for v in _values(cell, len(names))]
            made = row.origin.cells() if row.origin else [""] * len(origin.COLUMNS)
            writer.writerow([*(_unformula(v) for v in cells), *map(_unformula, made)])
        return out.getvalue()

    def to_latex(self) -> str:
        """A booktabs table; bounds in brackets after the value, where a row comes from in a comment below it."""
        lines = [
            r"\begin{table}",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{''.join('l' if words else 'r' for words in self.words)}}}",
            r"\toprule",
            " & ".join(map(_latex, self.heads)) + r" \\",
            r"\midrule",
        ]
        for row, texts in zip(self.rows, self.texts(), strict=True):
            lines.append(" & ".join(map(_latex, texts)) + r" \\")
            if row.origin is not None:
                made = zip(origin.COLUMNS, row.origin.cells(), strict=True)
                lines.append("% " + ", ".join(f"{name}: {' '.join(text.split())}" for name, text in made if text))
        lines += [r"\bottomrule", r"\end{tabular}", *(rf"\par\footnotesize {_latex(note)}" for note in self.notes)]
        return "\n".join([*lines, r"\end{table}"]) + "\n"


_WRITERS = {"csv": Sheet.to_csv, "json": Sheet.to_json, "tex": Sheet.to_latex, "md": Sheet.to_markdown}


def write_sheets(sheets: Iterable[Sheet], folder: Path, endings: Sequence[str]) -> list[Path]:
    """Each sheet as `folder/NAME.ENDING`, the folder made; endings are csv, json, tex and md."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for sheet in sheets:
        for ending in endings:
            path = folder / f"{sheet.name}.{ending}"
            path.write_text(_WRITERS[ending](sheet), encoding="utf-8")
            written.append(path)
    return written


def _text(cell: Cell, column: Column, row: Row) -> str:
    scale, sign = 100 if column.percent or row.percent else 1, "+" if column.signed or row.signed else ""

    def number(value: float, sign: str = sign) -> str:
        shown = scale * value
        if isinf(shown):
            return f"{shown:{sign}}".replace("inf", "∞")
        if column.digits is None:
            return f"{shown:{sign},.0f}" if abs(shown) >= 100 else f"{shown:{sign}.3g}"
        return f"{shown:{sign},.{column.digits}f}"

    match cell:
        case None | Measure(value=None):
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
        case float():
            return number(cell)
        case Estimate(mean=mean, error=error):
            return number(mean) + ("" if error is None else f" ± {number(error, '')}")
        case Difference(mean=value, low=low, high=high):
            return f"{number(value)} [{number(low)}, {number(high)}]"
        case Measure(value=float(value), interval=bounds, error=error):
            within = "" if bounds is None else f" [{number(bounds.low)}, {number(bounds.high)}]"
            return number(value) + ("" if error is None else f" ± {number(error, '')}") + within
    raise TypeError(cell)


def _parts(cells: Iterable[Cell]) -> tuple[str, ...]:
    """What a column's cells fall into."""
    held = list(cells)
    kinds = {type(cell) for cell in held}
    if any(isinstance(cell, Measure) and cell.error is not None for cell in held):
        return ("", "low", "high", "error")
    return ("", "low", "high") if kinds & {Measure, Difference} else ("", "error") if Estimate in kinds else ("",)


def _values(cell: Cell, parts: int) -> list[object]:
    match cell:
        case Measure(value=value, interval=bounds, error=error):
            found: list[object] = [value, *((None, None) if bounds is None else (bounds.low, bounds.high))]
            found += [error] if parts == 4 else []
        case Difference(mean=mean, low=low, high=high):
            found = [mean, low, high]
        case Estimate(mean=mean, error=error):
            found = [mean, error]
        case _:
            found = [cell]
    return [*found, *[None] * (parts - len(found))]


def _unformula(value: object) -> object:
    """A spreadsheet must not read a task's or an agent's name as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
