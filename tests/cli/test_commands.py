"""The command line as a whole: help, examples, what is printed and written, and how long its threads spin."""

import json
import shlex
import subprocess
import sys
from math import inf, nan
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import PANELS, app, load_command
from bestofq.cli.options import SUITES
from bestofq.cli.writing import write_json
from bestofq.envs import suites

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


def test_the_suites_named_in_help_are_those_there_are() -> None:
    assert {*SUITES} == {*suites.KINDS}


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


def test_what_is_no_number_is_json_all_the_same(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"α": {"share": nan, "bounds": (0.5, inf), "steps": [1, -inf]}, "none": None})
    text = (tmp_path / "result.json").read_text("utf-8")
    expected = {"α": {"share": None, "bounds": [0.5, "Infinity"], "steps": [1, "-Infinity"]}, "none": None}
    assert json.loads(text, parse_constant=pytest.fail) == expected
    assert text.startswith('{\n "α"')
