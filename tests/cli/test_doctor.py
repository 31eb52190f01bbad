from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.doctor import examine, package


@pytest.mark.slow
def test_the_table_names_every_part_and_the_code_says_whether_something_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bestofq.cli.findings.console", Console(width=300))
    done = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    said = done.output
    for what in (
        "Python",
        "packages",
        "PyTorch",
        "Chromium",
        "headless page",
        "pocket-web model",
        "pocket's Q-function",
        "disk",
    ):
        assert what in said
    assert "rendered from loopback: all is well [1]" in said
    assert done.exit_code == int(" missing " in said)


def test_a_chromium_that_is_none_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BESTOFQ_CHROMIUM", str(tmp_path / "none"))
    monkeypatch.setattr("bestofq.cli.checks.list_plugins", lambda _: ())  # models take seconds to load
    rows = {row.what: row for row in examine(tmp_path)}
    for what in ("Chromium", "headless page"):
        assert not rows[what].ok
        assert rows[what].required
        assert "playwright install" in rows[what].fix
    assert "is no program" in rows["Chromium"].found


def test_a_package_is_missing_too_old_or_right() -> None:
    missing = package("bestofq-has-no-such-package>=1.0")
    assert missing is not None
    assert missing.fix == "pip install 'bestofq-has-no-such-package>=1.0'"
    old = package("pydantic>=99.1")
    assert old is not None
    assert "needs 99.1" in old.found
    assert package("pydantic>=2.8") is None
