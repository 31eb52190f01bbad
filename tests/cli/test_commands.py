"""The command line as a whole: help is quick, each command has an example that fits its options."""

import shlex
import subprocess
import sys
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from bestofq import __version__
from bestofq.cli.commands import PANELS, app, function_of, load_command
from bestofq.cli.options import SUITES, CommonOptions
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


def test_the_words_that_commands_share_take_the_same_values_everywhere() -> None:
    shared = {*CommonOptions.__dataclass_fields__, "split", "n", "q", "tasks"}
    kinds: dict[str, set[object]] = {}
    for commands in PANELS.values():
        for name in commands:
            for word, kind in get_type_hints(function_of(name)).items():
                if word in shared and (name, word) not in (("demo", "tasks"), ("tasks", "split")):
                    kinds.setdefault(word, set()).add(get_args(kind)[0] if NoneType in get_args(kind) else kind)
    assert {*kinds} == shared
    assert {word: found for word, found in kinds.items() if len(found) > 1} == {}


def test_the_suites_named_in_help_are_those_there_are() -> None:
    assert {*SUITES} == {*suites.KINDS}


def test_the_version_is_said() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"bestofq {__version__}"


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
