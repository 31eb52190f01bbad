"""Parts of a user's own: of a module or an installed package by name, and of a package that `bestofq new` writes."""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from forked import Forked
from typer.testing import CliRunner

from bestofq.browser.config import BrowserConfig
from bestofq.cli.commands import app
from bestofq.cli.config import load_config
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core import loading
from bestofq.core.decision import Episode
from bestofq.core.errors import ConfigError
from bestofq.core.identity import identity_of
from bestofq.envs.suites import make_suite
from bestofq.interop.importing import read_log
from bestofq.recipes.identity import policy_identity
from bestofq.store.store import Store
from bestofq.testing import FaultServer
from bestofq.testing.contracts import check_judge, check_proposer, check_scorer

PARTS = """
from bestofq.core.decision import Scores
from bestofq.testing import ScriptedJudge, ScriptedProposer, ScriptedScorer
from examples.own_suite import Lamps

def make_suite(settings): return Lamps([settings["colour"]])
def make_scorer(models): return ScriptedScorer(lambda state, candidates: range(len(candidates)))
def make_proposer(models): return ScriptedProposer(lambda state, n: [" so\\nclick [1]", " so\\nclick [2]"])
def make_judge(models): return ScriptedJudge(lambda episode: "failure")
def make_none(models): return 7
def read(path): return [{"goal": path.name, "steps": []}]

class Last:
    async def score(self, state, candidates):
        return Scores(values=tuple(map(float, range(len(candidates)))))

def make_last(models):
    assert models.settings.n_candidates == 2
    return Last()
"""
GROUPS = {
    "suites": "make_suite",
    "scorers": "make_scorer",
    "proposers": "make_proposer",
    "judges": "make_judge",
    "readers": "read",
}


@pytest.fixture(autouse=True)
def nothing_read() -> Iterator[None]:
    loading.list_plugins.cache_clear()
    yield
    loading.list_plugins.cache_clear()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that names a part of each kind `mine`, as pip leaves one."""
    (tmp_path / "parts_of_mine.py").write_text(PARTS)
    about = tmp_path / "parts_of_mine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-mine\nVersion: 1\n")
    groups = (f"[bestofq.{group}]\nmine = parts_of_mine:{made}\n" for group, made in GROUPS.items())
    (about / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("kind", "name"), [("suite", "webshop"), ("model", "pocket"), ("command", "demo")])
def test_what_our_sites_bring_names_its_package_if_it_is_not_installed(
    kind: loading.Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "entry_points", lambda **group: ())
    with pytest.raises(ConfigError, match="pip install bestofq-sites"):
        loading.load_part(kind, name)


@pytest.mark.usefixtures("installed")
async def test_a_part_is_found_by_the_name_its_package_gives_it() -> None:
    named = ("suite.name=mine", "suite.colour=red", "scorer=mine", "proposer=mine", "judge=mine")
    settings = load_config(BestOfQSettings, None, named)
    models = Models(settings)
    assert [task.id for task in await make_suite(settings.suite).tasks("test")] == ["red"]
    agent = make_agent("own", models)
    await check_scorer(agent.scorer)
    await check_proposer(agent.proposer)
    assert models.judge is not None
    await check_judge(models.judge)
    assert [one.task.goal for one in read_log("mine", Path("a.log")) if isinstance(one, Episode)] == ["a.log"]
    kept = policy_identity(settings)
    assert (kept["proposer"], kept["judge"]) == ("mine", "mine")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("collect nothing", ("suite", "'nothing'", "mine", "known once that is installed")),
        ("eval --agents own --set scorer=nothing", ("scorer", "'nothing'", "mine", "known once that is installed")),
        ("eval --set proposer=nothing", ("proposer", "'nothing'", "mine", "known once that is installed")),
        ("import nothing here", ("reader", "'nothing'", "mine", "known once that is installed")),
        ("collect json:loads", ("json:loads", "TypeError")),
        ("collect json:decoder", ("json:decoder", "decoder")),
        ("eval --agents prompting,own", ("the agent own needs your scorer",)),
        ("eval --agents prompting,own --set scorer=no_such:make_scorer", ("cannot be loaded",)),
        ("eval --agents own --set scorer=parts_of_mine:nothing", ("nothing",)),
        ("eval --agents own --set scorer=parts_of_mine:Last", ("Last",)),
        ("eval --dry-run --agents prompting,own", ("the agent own needs your scorer",)),
        ("eval --dry-run --agents prompting,own --set scorer=no_such:make_scorer", ("cannot be loaded",)),
    ],
)
def test_a_part_that_cannot_be_made_is_refused_before_anything_is_played(
    command: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    done = CliRunner().invoke(app, [*command.split(), "--store", "s"])
    assert isinstance(done.exception, ConfigError), done.output
    for word in words:
        assert word in str(done.exception)
    assert not Path("s").exists()


@pytest.mark.usefixtures("installed")
def test_a_scorer_ranks_in_collect_and_eval_which_plays_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer that fails when it is made may be fixed: its agent has not played yet."""
    monkeypatch.chdir(tmp_path)
    short = ("--set", "n_candidates=2", "--set", "suite.step_limit=2", "--store", "s")
    scorer, evaluate = "--set=scorer=parts_of_mine:make_last", ("eval", "--agents", "prompting,own", "--runs", "1")
    failed = CliRunner().invoke(app, [*evaluate, "--tasks", "1", *short, "--set=scorer=parts_of_mine:make_none"])
    assert isinstance(failed.exception, ConfigError)
    again = []
    for command in (
        ("collect", "--agent", "own", "--repeats", "1", "--set", "suite.train_tasks=2"),
        *((*evaluate, "--tasks", tasks) for tasks in ("1", "1", "2")),
    ):
        done = CliRunner().invoke(app, [*command, *short, scorer], env={"COLUMNS": "200"})
        assert done.exit_code == 0, (done.output, done.exception)
        again.append("All episodes were stored already, and nothing was played: after a change give" in done.output)
    assert again == [False, False, True, False]
    with Store.open(Path("s"), read_only=True) as store:
        episodes = [episode for run in ("seed", "eval") for episode in store.episodes(run=run, agent="own")]
        runs = [run.config for run in store.runs()]
    decisions = [step.decision for episode in episodes for step in episode.steps]
    assert {decision.scorer for decision in decisions} == {"Last"}
    assert {decision.chosen == len(decision.candidates) - 1 for decision in decisions} == {True}
    assert max(len(decision.candidates) for decision in decisions) == 2
    assert ["parts_of_mine:make_last" in str(config["agents"]) for config in runs] == [True, True]


def clicker(request: Mapping[str, Any]) -> str:
    """The lamp that the task names."""
    user = request["messages"][-1]["content"]
    colour = re.search(r"Open the (\w+) lamp", user)
    mark = re.search(rf"{colour[1]} lamp \[(\d+)\]", user) if colour else None
    action = {"type": "click", "element": int(mark[1]) if mark else 1}
    return json.dumps({"candidates": [{"thought": "so", "note": "", "action": action}]})


async def test_eval_plays_a_suite_in_chromium_and_stores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    name = "examples.own_suite:make_suite"
    async with FaultServer(clicker) as server:
        command = ("eval", name, "--model", "m", "--base-url", server.base_url, "--agents", "prompting")
        more = ("--split", "test", "--runs", "1", "--set", "suite.colours=red,blue", "--store", str(tmp_path / "s"))
        done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more])
        assert done.exit_code == 0, done.output
        refused = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more, "--tasks", "green*"])
        assert "green*" in str(refused.exception)
    with Store.open(tmp_path / "s", read_only=True) as store:
        episodes = list(store.episodes(run="eval"))
        (run,) = store.runs()
    assert {(e.task.id, e.task.suite, e.verdict.outcome) for e in episodes} == {
        (colour, "lamps", "success") for colour in ("red", "blue")
    }
    kept = {"name": name, "colours": "red,blue", "screenshots": False, "step_limit": 5}
    assert run.config["suite"] == {**kept, "browser": identity_of(BrowserConfig())}


def test_tasks_that_are_in_pages_are_listed_and_planned(tmp_path: Path) -> None:
    only = ("--set", "suite.only=click-button", "--set", "suite.per_task=2")
    for command, shown in (
        (("tasks", "miniwob", "--split", "dev"), ("dev: 2 tasks", "Click on")),
        (("eval", "miniwob", "--dry-run", "--agents", "prompting", "--store", str(tmp_path / "s")), ("2×3",)),
    ):
        done = CliRunner().invoke(app, [*command, *only])
        assert done.exit_code == 0, done.output
        assert all(words in done.output for words in shown)
    assert list(tmp_path.iterdir()) == []


def test_a_new_part_keeps_to_its_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "scorer_to_try"
    done = CliRunner().invoke(app, ["new", "scorer", name])
    assert done.exit_code == 0, done.output
    monkeypatch.syspath_prepend(str(tmp_path / name))
    asyncio.run(check_scorer(importlib.import_module(name).make_scorer(None)))
    again = CliRunner().invoke(app, ["new", "scorer", name])
    assert name in str(again.exception)


def test_the_package_of_a_new_suite_passes_its_tests_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["new", "suite", "shops", "--out", str(tmp_path / "shops")])
    assert done.exit_code == 0, done.output
    monkeypatch.chdir(tmp_path / "shops")
    words = ["-q", "--import-mode=importlib", "-p", "no:asyncio", "-p", "no:xdist", "-p", "no:cacheprovider"]
    tried = Forked(tmp_path / "log", run_pytest, words)
    assert tried.wait() == 0, tried.said
    assert "1 passed" in tried.said


def run_pytest(words: list[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    sys.exit(int(pytest.main(words)))
