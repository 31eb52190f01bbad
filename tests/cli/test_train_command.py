"""`bestofq train`: killed, it learns the same."""

import asyncio
import shutil
import time
from itertools import product
from pathlib import Path

import pytest
from forked import Forked
from typer.testing import CliRunner, Result

from bestofq.cli.commands import app
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Provenance, Step, Verdict
from bestofq.core.errors import ConfigError, DataError, InputError
from bestofq.core.gate import Gate
from bestofq.core.observation import Observation, Task
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.learning.memory import Memory
from bestofq.recipes.identity import UNFINISHED
from bestofq.recipes.q_training import select_episodes
from bestofq.recipes.ranker import Ranker
from bestofq.reports.estimate import OffPolicyEstimate
from bestofq.rollouts.console import console
from bestofq.store.store import Store

TRYING = ("iql.steps=150", "iql.lr_q=0.003", "iql.network.hidden=[16]", 'iql.network.q_without=["action"]')
SMALL = ("iql.steps=300", "iql.batch_size=8", "iql.network.hidden=[16, 8]", "iql.precision=fp32")
PAGE = Observation(url="http://shop/", title="Shop", text="Red [1] Blue [2]", elements=())
ACTIONS = (Candidate(action=Click(mark=1), label="click Red"), Candidate(action=Click(mark=2), label="click Blue"))


async def play_all(folder: Path) -> None:
    """Thirty tasks, each played twice. They are done by Blue and by nothing else."""
    made = Provenance(version="test", seed=0)
    with Store.open(folder) as store:
        await store.begin_run("seed", {}, made)
        for number, chosen in product(range(30), (0, 1)):
            task = Task(id=f"t{number}", suite="shop", goal=f"buy hat {number}", start_url=PAGE.url, split="train")
            episode = await store.begin_episode("seed", "explore", task, chosen, made)
            offered = tuple(one.model_copy(update={"thought": f"try {chosen}"}) for one in ACTIONS)
            decision = Decision(candidates=offered, scores=(0.0, 0.0), chosen=chosen)
            step = Step(index=0, observation=PAGE, decision=decision, reward=float(chosen), terminated=True)
            await store.append_step(episode, step)
            verdict = Verdict(reward=float(chosen), outcome="success" if chosen else "failure")
            await store.finish_episode(episode, verdict, PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store`, which holds the played run."""
    made = tmp_path_factory.mktemp("train")
    asyncio.run(play_all(made / "store"))
    return made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "q"


def words_of(folder: Path, out: Path, settings: tuple[str, ...], *more: str) -> list[str]:
    chosen = [word for setting in settings for word in ("--set", setting)]
    return ["train", "--store", str(folder / "store"), "--out", str(out), "--no-estimate", *chosen, *more]


def train(folder: Path, out: Path, *more: str, settings: tuple[str, ...] = TRYING) -> Result:
    return CliRunner().invoke(app, words_of(folder, out, settings, *more), env={"COLUMNS": "200"})


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 200)


def test_remembered_outcomes_rank_alike_tasks_and_are_estimated(folder: Path, out: Path) -> None:
    remember = ("--set", "value=memory", "--estimate")
    assert train(folder, out, *remember).exit_code == 0
    kept = Memory.load(out)
    assert kept.episodes.count == 60
    actions = ["click Red", "click Blue"]
    index, (red, blue) = asyncio.run(Ranker.load(out, gate="off").rank("buy hat 77", PAGE, [], actions))
    assert index == 1
    assert asyncio.run(Ranker.load(out).rank("buy hat 77", PAGE, [], actions))[0] == 0  # nobody explored
    assert 0 <= red < 0.5 < blue <= 1
    estimate = OffPolicyEstimate.read(out)
    assert estimate.checkpoint == kept.checkpoint
    assert "used as it is" in train(folder, out, *remember).output
    assert isinstance(train(folder, out).exception, DataError)  # a network is another Q-function
    assert train(folder, out, "--again").exit_code == 0
    assert read_card(out).episodes == Memory.load(out).episodes == kept.episodes


def test_the_gate_stays_shut_where_nothing_can_be_held_out(folder: Path, out: Path) -> None:
    assert train(folder, out, "--set", "value=memory", "--estimate", "--episodes", "31").exit_code == 0  # one success
    assert set(Gate.load(out, Memory.load(out).checkpoint).thresholds) == {None}
    assert isinstance(CliRunner().invoke(app, ["serve", "--upstream", "u", "--rank", str(out)]).exception, ConfigError)


def test_it_writes_into_no_folder_of_another_kind(folder: Path) -> None:
    before = sorted((folder / "store").iterdir())
    assert isinstance(train(folder, folder / "store", "--again").exception, InputError)
    assert sorted((folder / "store").iterdir()) == before


def test_a_dry_run_tells_of_it_and_learns_nothing(folder: Path, out: Path) -> None:
    printed = train(folder, out, "--episodes", "40", "--dry-run").output
    for words in ("from 40 episodes of seed", "150 steps of"):
        assert words in " ".join(printed.split())
    assert not out.exists()


def test_the_first_episodes_teach_pass_after_pass(folder: Path, out: Path) -> None:
    done = train(folder, out, "--episodes", "40", "--set", "iql.steps=5")
    assert done.exit_code == 0, done.output
    known = read_card(out).episodes
    assert known.count == 40
    with Store.open(folder / "store", read_only=True) as store:
        first = select_episodes(store, ["seed"], 40)
    assert [e.key.repeat for e in first] == [0] * 30 + [1] * 10
    assert [e.key.task for e in first[:10]] == [e.key.task for e in first[30:]]


@pytest.fixture(scope="module")
def killed(folder: Path) -> Path:
    """A training killed after some steps; beside it lies `through`, one that never stopped."""
    out = folder / "killed"
    whole = train(folder, folder / "through", "--log-to", str(folder / "through" / "tensorboard"), settings=SMALL)
    assert whole.exit_code == 0, whole.output
    process = Forked(folder / "log", app, words_of(folder, out, (*SMALL, "iql.checkpoint_seconds=0")))
    try:
        while not ((out / UNFINISHED / CARD).exists() and read_card(out / UNFINISHED).step >= 20):
            assert process.runs, process.said
            time.sleep(0.002)
    finally:
        process.kill()
    assert not (out / CARD).exists()
    return out


def test_a_killed_training_continues_bit_for_bit(folder: Path, killed: Path) -> None:
    out = shutil.copytree(killed, folder / "alone")
    step = read_card(out / UNFINISHED).step
    done = train(folder, out, settings=SMALL)
    assert f"after step {step}" in done.output
    assert not (out / UNFINISHED).exists()
    assert read_card(out).weights == read_card(folder / "through").weights  # named by their hash
    assert [*(folder / "through" / "tensorboard").glob("events*")]
