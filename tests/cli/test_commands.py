"""The command line as a whole: help, examples, what is printed and written, and how long its threads spin."""

import json
import re
import shlex
import subprocess
import sys
from math import inf, nan
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import bestofq as bq
from bestofq.cli.commands import PANELS, app, load_command
from bestofq.cli.config import setting_names
from bestofq.cli.doctor import examine
from bestofq.cli.options import LOGS, SUITES
from bestofq.cli.writing import write_json
from bestofq.config.settings import BestOfQSettings
from bestofq.envs import suites
from bestofq.interop.importing import READERS
from scripts.reference import MADE_BY, reference

COMMANDS = [(name, example) for commands in PANELS.values() for name, (_, example) in commands.items()]
HEAVY = ("torch", "transformers", "openai", "playwright", "sqlalchemy", "numpy", "uvicorn")


def test_help_loads_nothing_that_a_command_needs() -> None:
    """In a process of its own: the help of everything together."""
    code = (
        "import sys\n"
        "from bestofq.cli.main import app\n"
        f"for words in [[], *([name] for name in {[name for name, _ in COMMANDS]!r})]:\n"
        "    app([*words, '--help'], standalone_mode=False)\n"
        f"print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.rstrip().endswith("loaded: []")


@pytest.mark.parametrize(("name", "example"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_an_example_can_be_typed(name: str, example: str) -> None:
    program, command, *words = shlex.split(example)
    assert (program, command) == ("bestofq", name)
    with load_command(name).make_context(name, words) as context:
        assert context.params


def test_the_suites_and_logs_named_in_help_are_those_there_are() -> None:
    assert ({*SUITES}, {*LOGS}) == ({*suites.KINDS}, {*READERS})


def test_settings_are_shown_with_what_was_changed() -> None:
    said = CliRunner().invoke(app, ["settings", "iql", "--set", "iql.expectile=0.8"], terminal_width=200).output
    assert "iql.expectile" in said
    assert "0.8 (default: 0.7)" in " ".join(said.split())
    assert "model.path" not in said


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for words in (
        ["eval", "booking", "--agents", "prompting,random", "--tasks", "7", "--runs", "2"],
        ["collect", "--tasks", "30", "--repeats", "2"],
        ["improve", "--tasks", "30", "--set", "cycles=1"],
        ["agent-q", "booking", "--rounds", "2", "--model", "pocket-agentq", "--set", "model.dialect=composite"],
        ["search", "booking", "--tasks", "5", "--model", "pocket-agentq", "--set", "model.dialect=composite"],
    ):
        done = CliRunner().invoke(app, [*words, "--store", str(folder), "--dry-run"], catch_exceptions=False)
        assert done.exit_code == 0
        assert "nothing is played" in done.output
    assert not folder.exists()


def test_of_named_tasks_all_are_searched(tmp_path: Path) -> None:
    words = ["search", "booking", "--tasks", "*", "--store", str(tmp_path / "store"), "--dry-run"]
    said = CliRunner().invoke(app, words, env={"COLUMNS": "200"}).output
    assert int(re.findall(r"search +train +([\d,]+)", said)[0].replace(",", "")) > 100


def test_what_is_no_number_is_json_all_the_same(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"α": {"share": nan, "bounds": (0.5, inf), "steps": [1, -inf]}, "none": None})
    text = (tmp_path / "result.json").read_text("utf-8")
    expected = {"α": {"share": None, "bounds": [0.5, None], "steps": [1, None]}, "none": None}
    assert json.loads(text, parse_constant=pytest.fail) == expected
    assert text.startswith('{\n "α"')


PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")


def test_the_committed_page_is_up_to_date() -> None:
    assert reference() == PAGE, f"docs/reference.md is not what the code says: run `{MADE_BY}` and commit it"


def test_everything_is_on_it() -> None:
    for panel, commands in PANELS.items():
        assert f"### {panel}\n" in PAGE
        assert all(f"#### `bestofq {name}`" in PAGE and example in PAGE for name, (_, example) in commands.items())
    assert [name for name in bq.__all__ if f"- `bq.{name}" not in PAGE] == []
    tables = {
        f"{place}.{setting}".removeprefix(".")
        for heading, rows in re.findall(r"^### (.*)\n\n((?:\|.*\n)+)", PAGE.partition("## Settings")[2], re.M)
        for place in re.findall(r"`([\w.]+)`", heading) or [""]
        for setting in re.findall(r"^\| `(\w+)`", rows, re.M)
    }
    assert [name for name in setting_names(BestOfQSettings) if name not in tables] == []


def test_every_option_setting_and_name_is_explained() -> None:
    rows = re.findall(r"^(?:\| (`.*`) \|.*\| |- `bq\.(.*)`:)(.*?) ?\|?$", PAGE, re.M)
    assert len(rows) > 300
    assert [option or name for option, name, meaning in rows if not meaning.strip()] == []


def test_the_doctor_names_every_part_and_its_code_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestofq.cli.findings.console", Console(width=300))
    done = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    for what in ("Python", "packages", "PyTorch", "Chromium", "disk", "rendered from loopback: all is well [1]"):
        assert what in done.output
    assert done.exit_code == int(" missing " in done.output)


def test_what_is_missing_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BESTOFQ_CHROMIUM", str(tmp_path / "none"))
    rows = {row.what: row for row in examine(tmp_path)}
    assert (rows["Chromium"].ok, rows["Chromium"].required) == (False, True)
    assert "playwright install" in rows["Chromium"].fix
    assert "is no program" in rows["Chromium"].found
    monkeypatch.setitem(sys.modules, "bestofq.cli.checks", None)  # as if it lacked a package
    rows = {row.what: row for row in examine(tmp_path)}
    assert (rows["packages"].ok, "pip install" in rows["packages"].fix) == (False, True)
