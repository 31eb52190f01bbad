"""Parts of a user's own by name: those of an installed package, and those of the package that `bestofq new` writes."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest
from forked import Forked
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.config import load_config
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core import loading
from bestofq.core.decision import Episode
from bestofq.core.errors import ConfigError
from bestofq.envs.suites import make_suite
from bestofq.interop.importing import read_log
from bestofq.learning.training import train_own
from bestofq.recipes.identity import policy_identity
from bestofq.testing.contracts import LEARNING, check_judge, check_learner, check_proposer, check_scorer, two_steps

PARTS = """
from bestofq.testing import ScriptedJudge, ScriptedProposer, ScriptedScorer
from bestofq.learning.iql import train_iql as learn
from examples.own_suite import Lamps

def make_suite(settings): return Lamps([settings["colour"]])
def make_scorer(models): return ScriptedScorer(lambda state, candidates: range(len(candidates)))
def make_proposer(models): return ScriptedProposer(lambda state, n: [" so\\nclick [1]", " so\\nclick [2]"])
def make_judge(models): return ScriptedJudge(lambda episode: "failure")
def read(path): return [{"goal": path.name, "steps": []}]
"""
GROUPS = {
    "suites": "make_suite",
    "scorers": "make_scorer",
    "proposers": "make_proposer",
    "judges": "make_judge",
    "learners": "learn",
    "readers": "read",
}


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
    few = LEARNING.model_copy(update={"steps": 2, "learner": "mine"})
    assert train_own(two_steps(), few).step == 2
    assert [one.task.goal for one in read_log("mine", Path("a.log")) if isinstance(one, Episode)] == ["a.log"]
    kept = policy_identity(settings)
    assert (kept["proposer"], kept["judge"]) == ("mine", "mine")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("collect nothing", "suite"),
        ("eval webshop --agents own --tasks 1 --set scorer=nothing", "scorer"),
        ("eval webshop --agents prompting --tasks 1 --set proposer=nothing", "proposer"),
        ("import nothing here", "reader"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(
    command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    done = CliRunner().invoke(app, [*command.split(), "--store", "s"])
    assert isinstance(done.exception, ConfigError), done.output
    for word in (kind, "'nothing'", "mine", "known once that is installed"):
        assert word in str(done.exception)


def test_an_unknown_learner_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"'awl'.*iql"):
        train_own(two_steps(), LEARNING.model_copy(update={"learner": "awl"}))


@pytest.mark.parametrize("kind", ["scorer", "learner"])
def test_a_new_part_keeps_to_its_contract(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"{kind}_to_try"
    done = CliRunner().invoke(app, ["new", kind, name])
    assert done.exit_code == 0, done.output
    monkeypatch.syspath_prepend(str(tmp_path / name))
    made = importlib.import_module(name)
    if kind == "scorer":
        asyncio.run(check_scorer(made.make_scorer(None)))
    else:
        check_learner(made.learn, LEARNING)
    again = CliRunner().invoke(app, ["new", kind, name])
    assert name in str(again.exception)


@pytest.mark.slow
def test_the_package_of_a_new_suite_passes_its_tests_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shops"
    done = CliRunner().invoke(app, ["new", "suite", "shops", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    monkeypatch.chdir(folder)
    tried = Forked(
        tmp_path / "log",
        run_pytest,
        ["-q", "--import-mode=importlib", "-p", "no:asyncio", "-p", "no:xdist", "-p", "no:cacheprovider"],
    )
    assert tried.wait() == 0, tried.said
    assert "1 passed" in tried.said


def run_pytest(words: list[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    sys.exit(int(pytest.main(words)))
