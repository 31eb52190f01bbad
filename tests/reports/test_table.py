import csv
import io
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from bestofq.cli.writing import write_out
from bestofq.reports.stats import Estimate, Interval, Measure, PairedDifference
from bestofq.reports.table import Column, Row, RowSource, Table, columns, write_tables

PLAYED = RowSource(runs=("eval",), commits=("abc",), models=("pocket",), seeds=(7,), repeats=3, n=5)
MADE = PLAYED.model_copy(update={"checkpoints": ("value-1", "value-2"), "commands": ("bestofq eval --n 5",)})
SUCCESS = Measure(value=0.5, interval=Interval(low=0.25, high=0.75))
WORSE = PairedDifference(mean=-0.1, low=-0.2, high=0.0, tasks=4)
TABLE = Table(
    name="some",
    title="Some 5 % & more",
    columns=(
        Column(name="agent"),
        Column(name="success", percent=True),
        Column(name="steps"),
        Column(name="difference", percent=True, signed=True),
        Column(name="episodes"),
    ),
    rows=(
        Row(cells=("=best|of_q", SUCCESS, Estimate(mean=4.25, error=0.5, runs=3), WORSE, 1234), origin=MADE),
        Row(cells=("plain", Measure(value=None), Estimate(mean=4.0, error=None, runs=1), None, 0)),
    ),
    notes=("A note with 95 %.",),
)


def test_texts_are_rounded_and_shares_are_in_percent() -> None:
    assert TABLE.heads == ("agent", "success %", "steps", "difference %", "episodes")
    assert TABLE.texts() == (
        ("=best|of_q", "50.0 [25.0, 75.0]", "4.2 ± 0.5", "-10.0 [-20.0, +0.0]", "1,234"),
        ("plain", "–", "4.0", "–", "0"),
    )


def test_amounts_of_any_size_keep_three_digits() -> None:
    column = Column(name="USD", signed=True, digits=None)
    table = Table(
        name="s", title="S", columns=(column,), rows=tuple(Row(cells=(v,)) for v in (0.000123456, -6011.1, 2.34567))
    )
    assert table.texts() == (("+0.000123",), ("-6,011",), ("+2.35",))


def test_csv_is_unrounded_and_each_row_names_where_it_comes_from() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.to_csv())))
    cells = {"agent": "'=best|of_q", "episodes": "1234"}  # no formula in a spreadsheet
    cells |= {"success": "0.5", "success low": "0.25", "success high": "0.75", "steps": "4.25", "steps error": "0.5"}
    cells |= {"difference": "-0.1", "difference low": "-0.2", "difference high": "0.0"}
    origin = {"runs": "eval", "commit": "abc", "model": "pocket", "seed": "7", "passes": "3", "N": "5"}
    origin |= {"Q-function": "value-1; value-2", "command": "bestofq eval --n 5"}
    assert rows[0] == cells | origin
    assert (rows[1]["success"], rows[1]["success low"], rows[1]["difference high"], rows[1]["runs"]) == ("",) * 4


def test_csv_keeps_bounds_and_errors_of_one_column_apart() -> None:
    cells = (SUCCESS, Estimate(mean=4.0, error=0.5, runs=3), 7)
    table = Table(name="s", title="S", columns=columns("x"), rows=tuple(Row(cells=(cell,)) for cell in cells))
    head, *rows = (row[:4] for row in csv.reader(io.StringIO(table.to_csv())))
    assert head == ["x", "x low", "x high", "x error"]
    assert rows == [["0.5", "0.25", "0.75", ""], ["4.0", "", "", "0.5"], ["7", "", "", ""]]


def test_json_reads_back_and_markdown_is_escaped() -> None:
    assert Table.model_validate_json(TABLE.to_json()) == TABLE
    assert r"| =best\|of_q | 50.0 [25.0, 75.0] |" in TABLE.to_markdown()


def test_words_of_pages_are_printed_as_they_are() -> None:
    cells = (("Recipes--0", "click link <Next>"), ("[1, 2]", 'write "a\nb"'), ("", "a|b"))
    rows = tuple(Row(cells=some) for some in cells)
    table = Table(name="s", title="S", columns=columns("task", "action"), rows=rows)
    assert table.to_markdown().splitlines()[2:] == [
        r"| Recipes--0 | click link \<Next> |",
        '| [1, 2] | write "a b" |',
        r"|  | a\|b |",
        "",
    ]


def test_files_are_named_after_the_table(tmp_path: Path) -> None:
    written = write_tables([TABLE], tmp_path / "deep" / "tables", ["csv", "md"])
    assert [path.name for path in written] == ["some.csv", "some.md"]
    assert written[0].read_text(encoding="utf-8") == TABLE.to_csv()


@pytest.mark.parametrize(
    "write", [lambda at: write_tables([TABLE], at, ["csv"]), lambda at: write_out(at / "a.json", {"a": 1})]
)
def test_what_is_stopped_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(Path, "replace", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_the_terminal_shows_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=160).print(TABLE)
    assert "50.0 [25.0, 75.0]" in capsys.readouterr().out


def test_a_narrow_terminal_gets_every_column_and_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    interval = Interval(low=-1234.5, high=1234.5)
    heads = ("agent", *(f"a measure of no {n}" for n in range(12)), "said")
    measures = [Measure(value=n + 0.5, interval=interval) for n in range(12)]
    cells = [(name, *measures, "some words " * 9) for name in ("best-of-q @3fa2c1", "prompting (eval-train, train)")]
    Console(width=80).print(Table.of("wide", "Wide", columns(*heads), cells, "A long note " * 9))
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert all(said.count(f"no {n}: {n}.5 [-1,234.5, 1,234.5]") == 2 for n in range(12))
    assert said.count("words") == 18


def test_html_is_escaped_and_a_clear_difference_has_a_class() -> None:
    clear = PairedDifference(mean=-0.1, low=-0.2, high=-0.05, tasks=4)
    row = Row(cells=("<b>q</b>", None, None, clear, 3))
    drawn = TABLE.model_copy(update={"rows": (*TABLE.rows, row)}).to_html()
    assert '<th scope="row">&lt;b&gt;q&lt;/b&gt;</th>' in drawn
    assert '<td class="down">-10.0 [-20.0, -5.0]</td>' in drawn
    assert "<td>-10.0 [-20.0, +0.0]</td>" in drawn


def test_what_tells_nothing_is_shown_to_nobody_and_kept_in_files(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (Row(cells=("prior @3f", 0.5, None)), Row(cells=("prompting", 0.25, None)))
    table = Table(name="t", title="T", columns=columns("agent", "success %", "error"), rows=rows)
    Console(width=80).print(table)
    said = capsys.readouterr().out
    assert "success %" in said
    assert "error" not in said
    html = table.to_html()
    assert "error" not in html
    assert '<th scope="row">best-of-q + prior @3f</th>' in html
    assert table.to_csv().startswith("agent,success,error,")
    assert '"prior @3f"' in table.to_json()
