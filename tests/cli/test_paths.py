"""Paths that are not what a command takes them for: a sentence and exit code 2, and nothing lost."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bestofq.cli.commands import app
from bestofq.cli.main import exit_with
from bestofq.core.decision import Provenance, Verdict
from bestofq.core.observation import Task
from bestofq.store.store import Store

MADE = Provenance(version="0.0-test")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One episode, and beside the store a file."""

    async def fill(opened: Store) -> None:
        await opened.begin_run("eval", {}, MADE)
        task = Task(id="a", suite="s", goal="g", start_url="http://s.example/")
        episode = await opened.begin_episode("eval", "prompting", task, 0, MADE)
        await opened.finish_episode(episode, Verdict(reward=1.0, outcome="success"), None)

    tmp_path = tmp_path_factory.mktemp("paths")
    (tmp_path / "file").write_text("mine", "utf-8")
    with Store.open(tmp_path / "store") as opened:
        asyncio.run(fill(opened))
    return tmp_path / "store"


@pytest.mark.parametrize(
    "options",
    [
        *(("--csv", "file"), ("--html", "file"), ("--html", "file/below"), ("--markdown", "file/below")),
        *(("--by", "agent", "--svg", "."), ("--by", "agent", "--svg", "file/below.svg")),
    ],
    ids=" ".join,
)
def test_where_nothing_can_be_written(
    store: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(store.parent)
    code, said = result_of(capsys, "report", str(store), *options)
    path = options[-1].partition("/")[0]
    assert (code, f"error: {path}" in said) == (2, True)
    assert (store.parent / "file").read_text("utf-8") == "mine"


@pytest.mark.parametrize("more", [("--table", "agents"), ("--by", "agent")], ids=" ".join)
@pytest.mark.parametrize("option", ["--json out.json", "--csv new/out.csv", "--markdown out.md"])
def test_a_folder_that_is_named_as_a_file_is_refused(
    store: Path, option: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(store.parent)
    code, said = result_of(capsys, "report", str(store), *option.split(), *more)
    assert code == 2
    assert f"is a file's name: give {option.partition('.')[0]}" in " ".join(said.split())
    assert {one.name for one in store.parent.iterdir()} == {"file", "store"}


def test_a_demo_does_not_take_a_file_s_place(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = store.parent / "file"
    code, said = result_of(capsys, "demo", "--out", str(file))
    assert (code, "Not a directory" in said, file.read_text("utf-8")) == (2, True, "mine")


def test_an_error_of_the_system_that_names_no_path_is_not_hidden() -> None:
    def fails() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        exit_with(fails)


def result_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """The exit code and what was said, in one line."""
    with pytest.raises(SystemExit) as end:
        exit_with(partial(app, list(words)))
    return end.value.code, " ".join(capsys.readouterr().out.split())
