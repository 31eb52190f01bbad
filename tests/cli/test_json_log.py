"""With --log-format json all that a command says is one JSON object a line on stderr."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from test_running import bestofq

from bestofq.core.json_lines import JsonLines
from bestofq.rollouts import progress as progress_module
from bestofq.rollouts.progress import LiveProgress, bar


def test_a_command_says_its_messages_and_its_end(tmp_path: Path) -> None:
    process = bestofq(tmp_path / "log", "--log-format", "json", "collect", "no-such-suite")
    assert process.wait() == 2
    (end,) = map(json.loads, process.said.splitlines())
    assert (end["level"], end["exit_code"]) == ("error", 2)
    assert "no-such-suite" in end["message"]


def test_a_message_is_one_object_and_progress_has_its_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=JsonLines(), width=1000)
    monkeypatch.setattr(progress_module, "console", console)
    console.print("[bold]two\nlines[/bold] at once")
    with LiveProgress("eval") as progress:
        progress.begin([], 4)
    with bar() as shown:
        row = shown.add_task("training", total=7)
        shown.update(row, completed=7)
    message, episodes, steps = map(json.loads, capsys.readouterr().err.splitlines())
    assert message["message"] == "two\nlines at once"
    assert (episodes["label"], episodes["done"], episodes["total"]) == ("eval", 0, 4)
    assert (steps["label"], steps["done"], steps["total"]) == ("training", 7, 7)
    assert {said["event"] for said in (episodes, steps)} == {"progress"}
