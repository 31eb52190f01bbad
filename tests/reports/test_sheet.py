import csv
import io
from math import inf
from pathlib import Path

import pytest
from rich.console import Console

from bestofq.reports.origin import Origin
from bestofq.reports.sheet import Column, Row, Sheet, write_sheets
from bestofq.reports.stats import Difference, Estimate, Interval, Measure

MADE = Origin(
    runs=("eval",),
    commits=("abc",),
    models=("pocket",),
    seeds=(7,),
    repeats=3,
    n=5,
    checkpoints=("value-1", "value-2"),
    commands=("bestofq eval --n 5",),
)
SHEET = Sheet(
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
        Row(
            cells=(
                "=best|of_q",
                Measure(value=0.5, interval=Interval(low=0.25, high=0.75)),
                Estimate(mean=4.25, error=0.5, runs=3),
                Difference(mean=-0.1, low=-0.2, high=0.0, tasks=4),
                1234,
            ),
            origin=MADE,
        ),
        Row(cells=("plain", Measure(value=None), Estimate(mean=4.0, error=None, runs=1), None, 0)),
    ),
    notes=("A note with 95 %.",),
)


def test_texts_are_rounded_and_shares_are_in_percent() -> None:
    assert SHEET.heads == ("agent", "success %", "steps", "difference %", "episodes")
    assert SHEET.texts() == (
        ("=best|of_q", "50.0 [25.0, 75.0]", "4.2 ± 0.5", "-10.0 [-20.0, +0.0]", "1,234"),
        ("plain", "–", "4.0", "–", "0"),
    )


def test_amounts_of_any_size_keep_three_digits() -> None:
    column = Column(name="USD", signed=True, digits=None)
    sheet = Sheet(
        name="s", title="S", columns=(column,), rows=tuple(Row(cells=(v,)) for v in (0.000123456, -6011.1, 2.34567))
    )
    assert sheet.texts() == (("+0.000123",), ("-6,011",), ("+2.35",))


def test_an_infinite_bound_is_shown_and_reads_back() -> None:
    cells = (
        Measure(value=2000.0, interval=Interval(low=500.0, high=inf)),
        Difference(mean=-5.0, low=-inf, high=inf, tasks=4),
    )
    columns = (Column(name="tokens", digits=0), Column(name="difference", signed=True, digits=None))
    sheet = Sheet(name="s", title="S", columns=columns, rows=(Row(cells=cells),))
    assert sheet.texts() == (("2,000 [500, ∞]", "-5 [-∞, +∞]"),)
    assert r"2,000 [500, $\infty$] & -5 [-$\infty$, +$\infty$] \\" in sheet.to_latex()
    assert "| 2,000 [500, ∞] |" in sheet.to_markdown()
    assert '"Infinity"' in sheet.to_json()
    assert Sheet.model_validate_json(sheet.to_json()) == sheet
    assert sheet.to_csv().splitlines()[1].startswith("2000.0,500.0,inf,-5.0,-inf,inf")


def test_csv_is_unrounded_and_each_row_names_where_it_comes_from() -> None:
    rows = list(csv.DictReader(io.StringIO(SHEET.to_csv())))
    assert rows[0] == {
        "agent": "'=best|of_q",  # no formula in a spreadsheet
        "success": "0.5",
        "success low": "0.25",
        "success high": "0.75",
        "steps": "4.25",
        "steps error": "0.5",
        "difference": "-0.1",
        "difference low": "-0.2",
        "difference high": "0.0",
        "episodes": "1234",
        "runs": "eval",
        "commit": "abc",
        "model": "pocket",
        "seed": "7",
        "passes": "3",
        "N": "5",
        "Q-function": "value-1; value-2",
        "command": "bestofq eval --n 5",
    }
    assert (rows[1]["success"], rows[1]["success low"], rows[1]["difference high"], rows[1]["runs"]) == ("",) * 4


def test_json_reads_back_and_markdown_and_latex_are_escaped() -> None:
    assert Sheet.model_validate_json(SHEET.to_json()) == SHEET
    assert r"| =best\|of_q | 50.0 [25.0, 75.0] |" in SHEET.to_markdown()
    latex = SHEET.to_latex()
    assert r"\caption{Some 5 \% \& more}" in latex
    assert r"=best|of\_q & 50.0 [25.0, 75.0] & 4.2 $\pm$ 0.5 & -10.0 [-20.0, +0.0] & 1,234 \\" in latex
    made = "runs: eval, commit: abc, model: pocket, seed: 7, passes: 3, N: 5, Q-function: value-1; value-2"
    assert f"% {made}, command: bestofq eval --n 5" in latex
    assert latex.count(r"\\") == 3


def test_a_command_cannot_break_out_of_a_comment() -> None:
    made = MADE.model_copy(update={"commands": ("bestofq\n\\input{secret}",)})
    row = SHEET.rows[0].model_copy(update={"origin": made})
    latex = SHEET.model_copy(update={"rows": (row,)}).to_latex()
    assert [line for line in latex.splitlines() if "secret" in line] == [
        line for line in latex.splitlines() if line.startswith("%")
    ]


def test_files_are_named_after_the_sheet(tmp_path: Path) -> None:
    written = write_sheets([SHEET], tmp_path / "deep" / "tables", ["csv", "tex"])
    assert [path.name for path in written] == ["some.csv", "some.tex"]
    assert written[0].read_text(encoding="utf-8") == SHEET.to_csv()


def test_the_terminal_shows_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=160).print(SHEET.to_rich())
    assert "50.0 [25.0, 75.0]" in capsys.readouterr().out
