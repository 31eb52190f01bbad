"""`bestofq train` as a process: killed, it continues bit for bit; by torchrun, two processes learn what one does."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forked import Forked, launch_forks
from test_try_settings import play_all
from torch.distributed.run import main as torchrun
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.errors import DataError
from bestofq.learning.checkpoint import CARD, load_networks, read_card
from bestofq.recipes.identity import UNFINISHED

STEPS = 300
SETTINGS = (
    f"iql.steps={STEPS}",
    "iql.batch_size=8",
    "iql.network.hidden=[16, 8]",
    "iql.network.dropout=0",  # whose masks are each process's own
    "iql.precision=fp32",
)
COMMANDS = Path(__file__).with_name("launched_commands.py")
TWO = ("--standalone", "--nproc-per-node=2")
SIZES = ("suite.train_tasks=2", "suite.step_limit=4", "seed_runs=1", "cycles=1", "runs_per_cycle=1", "iql.steps=20")
Arguments = Callable[..., list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("train")


@pytest.fixture
async def arguments(folder: Path) -> Arguments:
    """The command's words, on a store with sixty episodes."""
    if not (folder / "store").exists():
        await play_all(folder / "store", "seed")

    def words(out: str, *more: str) -> list[str]:
        settings = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
        return ["train", "--store", str(folder / "store"), "--out", str(folder / out), "--no-estimate", *settings]

    return words


def alone(words: list[str]) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "500"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def killed(folder: Path, arguments: Arguments) -> Path:
    """A training killed after some steps; beside it lies `through`, one that never stopped."""
    out = folder / "killed"
    if not out.exists():
        alone([*arguments("through"), "--log-to", "tensorboard"])
        process = Forked(folder / "log", app, arguments("killed", "iql.checkpoint_seconds=0"))
        try:
            while not ((out / UNFINISHED / CARD).exists() and read_card(out / UNFINISHED).step >= 20):
                assert process.runs, process.said
                time.sleep(0.002)
        finally:
            process.kill()
        assert not (out / CARD).exists()
    return out


def test_a_dry_run_trains_nothing(folder: Path, arguments: Arguments) -> None:
    said = alone([*arguments("dry"), "--dry-run"])
    assert "learn from 60 episodes of seed" in said
    assert not (folder / "dry").exists()


@pytest.mark.parametrize("command", ["train", "estimate"])
def test_a_run_that_the_store_has_not_is_named_with_those_it_has(
    command: str, folder: Path, arguments: Arguments
) -> None:
    words = arguments("unknown") if command == "train" else ["estimate", "--store", str(folder / "store")]
    done = CliRunner().invoke(app, [*words, "--run", "seed", "--run", "nope"])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == "there is no run 'nope' in the store: it has seed: give --run seed"
    assert not (folder / "unknown").exists()


def test_a_killed_training_continues_bit_for_bit(folder: Path, killed: Path, arguments: Arguments) -> None:
    out = shutil.copytree(killed, folder / "alone")
    step = read_card(out / UNFINISHED).step
    done = alone(arguments("alone"))
    assert f"after step {step}" in done
    assert not (out / UNFINISHED).exists()
    assert read_card(out).weights == read_card(folder / "through").weights  # named by their hash
    assert [*(folder / "through" / "tensorboard").glob("events*")]


@pytest.fixture(scope="module")
def recipe(folder: Path) -> list[str]:
    """The settings of a small recipe, and its store."""
    settings = [word for setting in (*SETTINGS, *SIZES) for word in ("--set", setting)]
    return ["--store", str(folder / "recipe"), *settings]


def test_two_processes_of_torchrun_continue_it_and_learn_what_one_does(
    folder: Path, killed: Path, arguments: Arguments
) -> None:
    shutil.copytree(killed, folder / "two")
    words = [*TWO, "-m", "bestofq.cli.main", *arguments("two")]
    launched = Forked(folder / "of two", launch_forks, torchrun, words, COLUMNS="500")
    assert launched.wait() == 0, launched.said
    assert launched.said.count("Q and V learned from") == 1  # the second process is silent
    check_same(folder / "through", folder / "two")


def test_a_recipe_under_torchrun_is_played_by_one_process_and_learned_by_two(folder: Path, recipe: list[str]) -> None:
    """Each Q-function is what one process learns from the same episodes."""
    words = [*TWO, str(COMMANDS), "improve", "--out", str(folder / "both"), *recipe]
    launched = Forked(folder / "said", launch_forks, torchrun, words, COLUMNS="500")
    assert launched.wait() == 0, launched.said
    assert launched.said.count("Q and V learned from") == 2  # once a Q-function
    for name, runs, episodes in (("q0", ["seed"], 2), ("q1", ["seed", "cycle-1"], 4)):
        again = [word for run in runs for word in ("--run", run)]
        alone(["train", "--no-estimate", "--out", str(folder / f"one-{name}"), *again, *recipe])
        found = read_card(folder / "both" / name).episodes
        assert found is not None
        assert found.count == episodes
        check_same(folder / f"one-{name}", folder / "both" / name)


def check_same(expected: Path, found: Path) -> None:
    embed = read_card(found).embed
    for one, two in zip(*(load_networks(folder, embed=embed) for folder in (expected, found)), strict=True):
        for name, weight in one.state_dict().items():
            torch.testing.assert_close(two.state_dict()[name], weight, rtol=2e-3, atol=1e-4)  # of float16
