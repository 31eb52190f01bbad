"""The one table: numbers with intervals and with where each row comes from, for terminal, pages, papers and programs.

CSV and JSON are unrounded, and each row names its runs, commit, model, seed, N and command. A terminal too narrow for
all columns gets a line for each value: nothing is cut.
"""

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, Self

from markupsafe import Markup
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from bestofq.core.files import write_whole
from bestofq.core.frozen import FrozenModel
from bestofq.reports.stats import Estimate, Measure, PairedDifference
from bestofq.reports.svg import TEMPLATES

Cell = Measure | Estimate | PairedDifference | int | float | str | None


class RowSource(FrozenModel):
    """What made a row. Several values where its runs differ; none where the store does not know."""

    runs: tuple[str, ...]
    commits: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()  # the settings' seed
    repeats: int  # passes over the tasks, all runs together
    n: int | None  # candidates requested at a step, see `origin.origin`
    checkpoints: tuple[str, ...] = ()  # of the Q-functions that scored
    commands: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        numbers = (self.repeats,), () if self.n is None else (self.n,)
        several = (self.runs, self.commits, self.models, self.seeds, *numbers, self.checkpoints, self.commands)
        return tuple("; ".join(map(str, values)) for values in several)


ORIGIN_COLUMNS = ("runs", "commit", "model", "seed", "passes", "N", "Q-function", "command")


class Column(FrozenModel):
    """A column; `percent`: its values are shares and shown times 100."""

    name: str
    percent: bool = False
    signed: bool = False
    digits: int | None = 1  # after the point; None: three digits that count


def columns(*heads: str, signed: Collection[str] = (), digits: int | None = 1) -> tuple[Column, ...]:
    """A column a head as it is shown: with ` %` behind it its values are shares."""
    names = ((head.removesuffix(" %"), head.endswith(" %")) for head in heads)
    return tuple(Column(name=name, percent=share, signed=name in signed, digits=digits) for name, share in names)


class Row(FrozenModel):
    """One value a column. `origin` is None if the row comes from no run."""

    cells: tuple[Cell, ...]
    origin: RowSource | None = None


class Table(FrozenModel):
    """A table; `name` names its files."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        cells: Iterable[Sequence[Cell]],
        *notes: str,
        made: Mapping[str, RowSource] | None = None,
    ) -> Self:
        """From the cells of its rows; `made`: their origins, by their first cells."""
        rows = tuple(Row(cells=tuple(row), origin=(made or {}).get(str(row[0]))) for row in cells)
        return cls(name=name, title=title, columns=tuple(columns), rows=rows, notes=notes)

    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The rows, rounded."""
        return tuple(tuple(starmap(_text, zip(row.cells, self.columns, strict=True))) for row in self.rows)

    @property
    def words(self) -> tuple[bool, ...]:
        """By column, whether it holds words, not numbers."""
        return tuple(any(isinstance(row.cells[i], str) for row in self.rows) for i in range(len(self.columns)))

    @property
    def telling(self) -> tuple[int, ...]:
        """The first column, and the others in which some row has something: those that people are shown."""
        texts = self.texts()
        return tuple(i for i in range(len(self.columns)) if i == 0 or any(row[i] not in ("–", "") for row in texts))

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(column.name + (" %" if column.percent else "") for column in self.columns)

    def with_title(self, title: str) -> "Table":
        return self.model_copy(update={"title": title})

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield Text(self.title, style="bold")
        drawn = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for i in self.telling:
            drawn.add_column(Text(self.heads[i]), justify="left" if self.words[i] else "right", overflow="fold")
        for row in self.texts():
            drawn.add_row(*(Text(row[i]) for i in self.telling))
        if Measurement.get(console, options.update(max_width=10_000), drawn).maximum <= options.max_width:
            yield drawn
        else:
            for name, *values in self.texts():
                yield Text(f"\n{name}", style="bold")
                yield Text("\n".join(f"  {self.heads[i]}: {values[i - 1]}" for i in self.telling[1:]))
        if self.notes:
            yield Text("\n" + "\n".join(self.notes), style="dim")

    def to_html(self) -> Markup:
        """The table element; a difference whose interval leaves zero out has the class `up` or `down`. Agents have the
        names that figures give them."""
        words = [Markup(' class="words"') if words else "" for words in self.words]
        rows = zip(self.rows, self.texts(), strict=True)
        template = TEMPLATES.get_template("table.html.jinja")
        return Markup(template.render(heads=self.heads, rows=rows, telling=self.telling, words=words, style=_style))

    def to_markdown(self) -> str:
        """A GitHub table, its notes below; ends with a line break."""
        lines = [_pipes(self.heads), _pipes(["---" if words else "--:" for words in self.words])]
        lines += [_pipes(texts) for texts in self.texts()]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]) + "\n"

    def to_json(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    def to_csv(self) -> str:
        """Unrounded, shares in [0, 1]; a measure takes three columns, its value and its bounds."""
        rows = [[_parts(cell) for cell in row.cells] for row in self.rows]
        wide = [
            (i, part)
            for i in range(len(self.columns))
            for part in ("", "low", "high", "error")
            if not part or any(part in row[i] for row in rows)
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*(f"{self.columns[i].name} {part}".rstrip() for i, part in wide), *ORIGIN_COLUMNS])
        for row, parts in zip(self.rows, rows, strict=True):
            made = row.origin.cells() if row.origin else [""] * len(ORIGIN_COLUMNS)
            writer.writerow(map(_unformula, [*(parts[i].get(part) for i, part in wide), *made]))
        return out.getvalue()


_WRITERS = {"csv": Table.to_csv, "json": Table.to_json, "md": Table.to_markdown}


def write_tables(tables: Iterable[Table], folder: Path, endings: Sequence[str]) -> list[Path]:
    """Each table as `folder/NAME.ENDING`, the folder made; endings are csv, json and md."""
    texts = {folder / f"{table.name}.{ending}": _WRITERS[ending](table) for table in tables for ending in endings}
    for path, text in texts.items():
        write_whole(path, text)
    return [*texts]


def _pipes(cells: Sequence[str]) -> str:
    """A row of a GitHub table; a `|` inside a cell would end it, a line break the row, and `<` begins HTML."""
    escaped = (" ".join(cell.replace("|", r"\|").replace("<", r"\<").splitlines()) for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _text(cell: Cell, column: Column) -> str:
    scale, sign = 100 if column.percent else 1, "+" if column.signed else ""

    def number(value: float, sign: str = sign) -> str:
        shown = scale * value
        if column.digits is None:
            return f"{shown:{sign},.0f}" if abs(shown) >= 100 else f"{shown:{sign}.3g}"
        return f"{shown:{sign},.{column.digits}f}"

    parts = _parts(cell)
    value, error, low, high = (parts.get(part) for part in ("", "error", "low", "high"))
    if not isinstance(value, float):
        return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    deviation = "" if error is None else f" ± {number(error, '')}"
    return number(value) + deviation + ("" if low is None or high is None else f" [{number(low)}, {number(high)}]")


def _parts(cell: Cell) -> dict[str, Any]:
    """What a cell falls into, by the word behind its column's head."""
    match cell:
        case Measure(value=value, interval=bounds, error=error):
            error_part = {} if error is None else {"error": error}
            return {"": value, "low": bounds and bounds.low, "high": bounds and bounds.high, **error_part}
        case PairedDifference(mean=mean, low=low, high=high):
            return {"": mean, "low": low, "high": high}
        case Estimate(mean=mean, error=error):
            return {"": mean, "error": error}
    return {"": cell}


def _style(cell: Cell) -> Markup | None:
    if isinstance(cell, PairedDifference) and cell.clear:
        return Markup(' class="up"' if cell.mean > 0 else ' class="down"')
    return None


def _unformula(value: object) -> object:
    """A spreadsheet must not read a task's or an agent's name as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
