"""A suite of a user's own reaches the commands by its name."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bestofq.browser.config import BrowserConfig
from bestofq.cli.commands import app
from bestofq.core.errors import ConfigError
from bestofq.core.identity import identity_of
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

ROOT = Path(__file__).parents[2]


def clicker(request: Mapping[str, Any]) -> str:
    """The lamp that the task names."""
    user = request["messages"][-1]["content"]
    colour = re.search(r"Open the (\w+) lamp", user)
    mark = re.search(rf"{colour[1]} lamp \[(\d+)\]", user) if colour else None
    action = {"type": "click", "element": int(mark[1]) if mark else 1}
    return json.dumps({"candidates": [{"thought": "so", "note": "", "action": action}]})


async def test_eval_plays_it_in_chromium_and_stores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    async with FaultServer(clicker) as server:
        chat = ("--model", "m", "--base-url", server.base_url)
        command = ("eval", "examples.own_suite:make_suite", *chat, "--agents", "prompting", "--split", "test")
        more = ("--runs", "1", "--set", "suite.colours=red,blue", "--store", str(tmp_path / "s"))
        done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more])
        assert done.exit_code == 0, done.output
        one = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more, "--tasks", "green*"])
        assert one.exit_code != 0
        assert "green*" in str(one.exception)
    with Store.open(tmp_path / "s", read_only=True) as store:
        found = list(store.episodes(run="eval"))
        (run,) = store.runs()
    assert {(e.task.id, e.task.suite, e.verdict.outcome) for e in found} == {
        (colour, "lamps", "success") for colour in ("red", "blue")
    }
    name = "examples.own_suite:make_suite"
    kept = {"name": name, "colours": "red,blue", "screenshots": False, "step_limit": 5}
    assert run.config["suite"] == {**kept, "browser": identity_of(BrowserConfig())}


@pytest.mark.parametrize(("name", "said"), [("json:loads", "TypeError"), ("json:decoder", "decoder")])
def test_what_makes_no_suite_is_one_sentence(name: str, said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["collect", name, "--store", str(tmp_path / "s")])
    assert isinstance(done.exception, ConfigError)
    assert name in str(done.exception)
    assert said in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_tasks_of_a_suite_with_its_own_clock_are_not_stale() -> None:
    done = CliRunner().invoke(app, ["tasks", "booking", "--split", "dev"])
    assert done.exit_code == 0, done.output
    assert "past" not in done.output


@pytest.mark.slow
def test_tasks_that_stand_in_pages_are_listed_and_planned(tmp_path: Path) -> None:
    only = ("--set", "suite.only=click-button", "--set", "suite.per_task=2")
    done = CliRunner().invoke(app, ["tasks", "miniwob", "--split", "dev", *only])
    assert done.exit_code == 0, done.output
    assert "dev: 2 tasks" in done.output
    assert "Click on" in done.output
    command = ("eval", "miniwob", "--dry-run", "--agents", "prompting", "--store", str(tmp_path / "s"))
    planned = CliRunner().invoke(app, [*command, *only])
    assert planned.exit_code == 0, planned.output
    assert list(tmp_path.iterdir()) == []
