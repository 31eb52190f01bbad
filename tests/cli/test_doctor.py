import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.doctor import examine

PARTS = (
    "Python",
    "packages",
    "PyTorch",
    "Chromium",
    "headless page",
    "disk",
)


@pytest.mark.slow
def test_the_table_names_every_part_and_the_code_says_whether_something_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bestofq.cli.findings.console", Console(width=300))
    done = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    for what in (*PARTS, "rendered from loopback: all is well [1]"):
        assert what in done.output
    assert done.exit_code == int(" missing " in done.output)


def test_what_is_missing_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BESTOFQ_CHROMIUM", str(tmp_path / "none"))
    rows = {row.what: row for row in examine(tmp_path)}
    for what in ("Chromium", "headless page"):
        assert (rows[what].ok, rows[what].required) == (False, True)
        assert "playwright install" in rows[what].fix
    assert "is no program" in rows["Chromium"].found
    monkeypatch.setitem(sys.modules, "bestofq.cli.checks", None)  # as if it lacked a package
    rows = {row.what: row for row in examine(tmp_path)}
    assert (rows["packages"].ok, "pip install" in rows["packages"].fix) == (False, True)
