"""A scorer of a user's own reaches the commands by its name in the settings."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.errors import ConfigError
from bestofq.store.store import Store

MODULE = """
from bestofq.core.decision import Scores

class Last:
    async def score(self, state, candidates):
        return Scores(values=tuple(map(float, range(len(candidates)))))

def make_scorer(models):
    assert models.settings.n_candidates == 2
    return Last()

def make_none(models):
    return 7
"""
SHORT = ["--set", "n_candidates=2", "--set", "suite.step_limit=2", "--store", "s"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ranking_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "ranking_of_mine"


@pytest.mark.slow
def test_it_ranks_in_collect_and_eval_and_a_run_keeps_its_name(mine: str) -> None:
    settings = [*SHORT, f"--set=scorer={mine}:make_scorer"]
    training = ("--agent", "own", "--repeats", "1", "--set", "suite.train_tasks=2")
    for command in (("collect", *training), ("eval", "webshop", "--agents", "own", "--tasks", "2", "--runs", "1")):
        done = CliRunner().invoke(app, [*command, *settings])
        assert done.exit_code == 0, done.output
    with Store.open(Path("s"), read_only=True) as store:
        decisions = [step.decision for run in ("seed", "eval") for e in store.episodes(run=run) for step in e.steps]
        runs = [run.config for run in store.runs()]
    assert {decision.scorer for decision in decisions} == {"Last"}
    assert {decision.chosen == len(decision.candidates) - 1 for decision in decisions} == {True}
    assert max(len(decision.candidates) for decision in decisions) == 2
    assert [f"{mine}:make_scorer" in str(config["agents"]) for config in runs] == [True, True]


def test_eval_says_once_that_all_was_stored_already(mine: str) -> None:
    """The scorer may have been edited since."""
    command = ["eval", "webshop", "--agents", "prompting,own", "--runs", "1", *SHORT]
    said = []
    for tasks in ("1", "1", "2"):
        words = [*command, "--set", f"scorer={mine}:make_scorer", "--tasks", tasks]
        done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        said.append(done.output.count("All episodes were stored already, and nothing was played: after a change give"))
    assert said == [0, 1, 0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["prompting,own"], "the agent own needs your scorer"),
        (["prompting,own", "--set", "scorer=rankng_of_mine:make_scorer"], "cannot be loaded"),
        (["prompting,beam", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"], "the agent beam searches"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["play", "dry"])
def test_an_agent_that_cannot_be_made_is_refused_before_another_plays(
    mine: str, wrong: list[str], said: str, dry: tuple[str, ...]
) -> None:
    command = ["eval", "webshop", "--tasks", "1", "--runs", "1", *SHORT, *dry]
    done = CliRunner().invoke(app, [*command, "--agents", *wrong])
    assert said in str(done.exception), done.output
    assert not Path("s").exists()
    done = CliRunner().invoke(app, [*command, "--agents", "prompting,own", "--set", f"scorer={mine}:make_scorer"])
    assert done.exit_code == 0, done.output


def test_a_scorer_that_fails_when_it_is_made_may_be_mended(mine: str) -> None:
    """Its agent has not played yet."""
    command = ["eval", "webshop", "--agents", "prompting,own", "--tasks", "1", "--runs", "1", *SHORT]
    failed = CliRunner().invoke(app, [*command, "--set", f"scorer={mine}:make_none"])
    assert isinstance(failed.exception, ConfigError)
    done = CliRunner().invoke(app, [*command, "--set", f"scorer={mine}:make_scorer"])
    assert done.exit_code == 0, (done.output, done.exception)


@pytest.mark.parametrize(
    "named", ["none", "ranking_of_mine:nothing", "ranking_of_mine:make_none", "ranking_of_mine:Last"]
)
def test_what_is_no_scorer_is_refused(mine: str, named: str) -> None:
    command = ("eval", "webshop", "--agents", "own", "--tasks", "2", "--set", f"scorer={named}", "--store", "s")
    done = CliRunner().invoke(app, list(command))
    assert isinstance(done.exception, ConfigError), done.output
