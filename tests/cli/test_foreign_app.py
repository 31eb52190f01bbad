"""Five goals on an application that none of us wrote: Radicale, a server of calendars and contacts, on loopback.

The model is scripted at its edge: it names an element by the mark that the page's text in the prompt gives it, so a
script ends as soon as the page does not offer what a person would press. What the goals did is read from the
application's own files. Install it into an environment of its own, and put that on the path:

    python -m venv apps && apps/bin/pip install radicale
    PATH=$PATH:$PWD/apps/bin pytest tests/cli/test_foreign_app.py
"""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.testing.fault_server import FaultServer

APP = shutil.which("radicale")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(APP is None, reason="radicale is not on the path: see the first lines of this file"),
]
Step = tuple[str, ...]
"""An act, the words before the mark that it is on (a pattern), and what is written; or "answer" and where it stands."""
LOG_IN: list[Step] = [("write", "Username", "ann"), ("write", "Password", "x"), ("click", "Next")]
NEW: Step = ("click", "Create a new addressbook or calendar")
GOALS: list[tuple[str, list[Step], str, dict[str, str]]] = [  # goal, script, answer, the collections after it
    (
        "Create a calendar named Mugs.",
        [NEW, ("write", "Calendar, journal and tasks", "calendar"), ("write", "Title:", "Mugs"), ("click", "Create")],
        "(Mugs)",
        {"Mugs": "VCALENDAR"},
    ),
    (
        "Create an address book named Friends, described as old ones.",
        [NEW, ("write", "Calendar, journal and tasks", "Address book"), ("write", "Title:", "Friends"),
         ("write", "Description:", "old ones"), ("click", "Create")],
        "(old ones)",
        {"Mugs": "VCALENDAR", "Friends": "VADDRESSBOOK"},
    ),
    ("What is the address of the calendar?", [], r'(http://\S+/ann/[\w-]+/)"', {"Mugs": "", "Friends": ""}),
    (
        "Rename the calendar Mugs to Kettles.",
        [("click", "Mugs"), ("click", "Edit"), ("write", "Title:", "Kettles"), ("click", "Save")],
        "(Kettles)",
        {"Kettles": "VCALENDAR", "Friends": ""},
    ),
    (
        "Delete the address book Friends.",
        [("click", "Friends"), ("click", "Delete"), ("write", r"in the box below:\n", "DELETE"), ("click", "Delete")],
        "(Kettles)",
        {"Kettles": "VCALENDAR"},
    ),
]  # fmt: skip


class Person:
    """A model that presses what the page calls by the words of its script, and then answers."""

    def __init__(self, steps: list[Step], answer: str) -> None:
        self.left, self.missing = [*LOG_IN, *steps, ("answer", answer)], ""

    def reply(self, request: Mapping[str, Any]) -> str:
        content = request["messages"][-1]["content"]
        page = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        kind, words, *text = self.left.pop(0)
        pattern = words if kind == "answer" else rf"{words}[^\n\[]*\[(\d+)\]"
        if not (named := re.findall(pattern, page.partition("Current page")[2])):
            self.missing = f"{words}\n{page}"
            action: dict[str, Any] = {"type": "answer", "text": "I do not find it."}
        elif kind == "answer":
            action = {"type": "answer", "text": named[-1]}
        else:
            action = {"type": kind, "element": int(named[-1])} | ({"text": text[0], "enter": False} if text else {})
        return json.dumps({"candidates": [{"thought": "", "note": "", "action": action}]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("collections")


@pytest.fixture(scope="module")
def radicale(folder: Path) -> Iterator[str]:
    assert APP is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [
        APP,
        "--config",
        "",
        f"--server-hosts={host}",
        f"--storage-filesystem-folder={folder}",
        "--auth-type=none",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            with suppress(httpx.ConnectError):
                httpx.get(f"http://{host}/")
                break
            time.sleep(0.1)
        yield f"http://{host}/.web/"
        process.kill()


@pytest.mark.parametrize(("goal", "steps", "answer", "after"), GOALS)
async def test_a_goal_is_reached(
    radicale: str, folder: Path, tmp_path: Path, goal: str, steps: list[Step], answer: str, after: dict[str, str]
) -> None:
    person = Person(steps, answer)
    async with FaultServer(person.reply) as server:
        command = ["run", goal, "--url", radicale, "--model", "m", "--base-url", server.base_url, "--yes"]
        done = await asyncio.to_thread(CliRunner().invoke, app, [*command, "--store", str(tmp_path)])
    assert not person.missing, person.missing
    assert (person.left, done.exit_code) == ([], 0), done.output
    found = [json.loads(file.read_text()) for file in folder.rglob(".Radicale.props")]  # noqa: ASYNC240
    assert {one["D:displayname"] for one in found} == {*after}
    assert all(after[one["D:displayname"]] in ("", one["tag"]) for one in found)
