"""A Q-function is used again only where settings and episodes are the same; else it is refused or trained again."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from bestofq.cli.config import load_config
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Verdict
from bestofq.core.errors import ConfigError, DataError
from bestofq.learning.checkpoint import CARD, load_value, read_card
from bestofq.learning.config import IQLConfig
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.identity import DONE, UNFINISHED
from bestofq.recipes.q_training import train_on_runs
from bestofq.store.store import Store

SMALL = (
    "suite.train_tasks=4",
    "seed_runs=1",
    "cycles=1",
    "runs_per_cycle=1",
    "iql.steps=6",
    "iql.batch_size=4",
    "iql.network.hidden=[8]",
    "iql.precision=fp32",
)


def models_with(*settings: str) -> Models:
    return Models(load_config(BestOfQSettings, None, (*SMALL, *settings)))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four episodes of the run seed, and the Q-function that they teach in `q`."""
    return tmp_path_factory.mktemp("collected")


@pytest.fixture
async def folder(collected: Path, tmp_path: Path) -> Path:
    if not (collected / "q").exists():
        models = models_with()
        async with open_suite(models) as suite:
            with Store.open(collected) as store:
                await collect(models, suite, store, "seed", Play("explore"))
                train_on_runs(models, store, ["seed"], collected / "q")
    return Path(shutil.copytree(collected, tmp_path / "store"))


def trained(folder: Path, settings: Sequence[str] = (), *, again: bool = False) -> None:
    """`q` is the Q-function's folder."""
    with Store.open(folder) as store:
        train_on_runs(models_with(*settings), store, ["seed"], folder / "q", again=again)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("iql.steps", "6", "7"),
        ("iql.network.hidden", "[8]", "[9]"),
        ("n_candidates", "3", "2"),
        ("model.embed.pooling", "mean", "last"),
    ],
)
async def test_another_setting_is_refused_by_name_with_both_values_and_trained_with_again(
    folder: Path, name: str, before: str, now: str
) -> None:
    kept = (folder / "q" / CARD).read_bytes()
    with pytest.raises(DataError) as caught:
        trained(folder, [f"{name}={now}"])
    for said in (name, before, now, "--out", "--again"):
        assert said in str(caught.value)
    assert (folder / "q" / CARD).read_bytes() == kept
    trained(folder, [f"{name}={now}"], again=True)
    assert (folder / "q" / CARD).read_bytes() != kept
    with pytest.raises(DataError, match=name):
        trained(folder)


async def test_the_same_settings_and_episodes_use_it_and_say_so(folder: Path, printed: Callable[[], str]) -> None:
    kept = (folder / "q" / CARD).read_bytes()
    trained(folder, ["iql.device=cpu", "iql.log_every=7", "iql.checkpoint_seconds=0", "epsilon=0.1"])
    assert str(folder / "q") in printed()
    assert (folder / "q" / CARD).read_bytes() == kept


async def test_a_run_that_is_named_twice_teaches_once(folder: Path) -> None:
    with Store.open(folder) as store:
        train_on_runs(models_with(), store, ["seed", "seed"], folder / "q")  # used as it is
        with pytest.raises(DataError, match="4 decided episodes, fewer than 5"):
            train_on_runs(models_with(), store, ["seed", "seed"], folder / "q", episodes=5)


async def test_learning_from_a_run_of_another_n_is_warned_of(folder: Path, printed: Callable[[], str]) -> None:
    trained(folder, ["n_candidates=2"], again=True)
    assert "add --set n_candidates=3\n" in printed()
    trained(folder, again=True)
    assert "n_candidates" not in printed()


async def test_learning_from_test_tasks_is_warned_of(folder: Path, printed: Callable[[], str]) -> None:
    with Store.open(folder) as store:
        [seed] = store.runs()
        await store.begin_run("eval", {"suite": {}, "split": "test"}, seed.provenance)
        await store.begin_run("imported", {"importer": "jsonl", "split": "test"}, seed.provenance)
        train_on_runs(models_with(), store, ["seed", "eval", "imported"], folder / "q")
    said = printed()
    assert "eval was played on test tasks" in said
    assert said.count("was played on") == 1


async def test_new_episodes_and_new_verdicts_are_noticed(folder: Path) -> None:
    with Store.open(folder) as store:
        one = next(store.episodes(run="seed"))
        new = await store.begin_episode("seed", "explore", one.task, 1, one.provenance)
        for step in one.steps:
            await store.append_step(new, step)
        await store.finish_episode(new, Verdict(outcome="unjudged", reward=0.0), None)
    trained(folder)  # an episode without a verdict teaches nothing

    async def judged(outcome: str) -> None:
        verdict = Verdict.model_validate({"outcome": outcome, "reward": float(outcome == "success"), "judge": "j"})
        with Store.open(folder) as store:
            await store.add_verdict(new, verdict, adopt=True)

    await judged("success")
    with pytest.raises(DataError, match=r"episodes\.count=4 \(now 5\)"):
        trained(folder)
    trained(folder, again=True)
    before = read_card(folder / "q").episodes
    await judged("failure")
    with pytest.raises(DataError, match=before.fingerprint):
        trained(folder)


async def test_improve_continues_with_more_cycles_and_refuses_other_settings(folder: Path, tmp_path: Path) -> None:
    async def improve(*settings: str) -> None:
        models = models_with(*settings)
        async with open_suite(models) as suite:
            with Store.open(folder) as store:
                await best_of_q(models, suite, store, tmp_path / "qs")

    await improve("cycles=0")
    first = (tmp_path / "qs" / "q0" / CARD).read_bytes()
    for changed, said in (
        ("iql.steps=7", r"iql\.steps=6 \(now 7\)"),
        ("suite.train_tasks=5", r"suite\.train_tasks=4 \(now 5\)"),
        ("seed_runs=2", r"seed_runs=1 \(now 2\)"),
    ):
        with pytest.raises(DataError, match=f"{said}.*--store and --out"):
            await improve(changed)
    await improve()
    assert (tmp_path / "qs" / "q0" / CARD).read_bytes() == first
    assert (tmp_path / "qs" / "q1" / DONE).exists()


async def test_an_unfinished_training_of_other_settings_is_refused_too(folder: Path) -> None:
    (folder / "q" / UNFINISHED).mkdir()
    (folder / "q" / DONE).unlink()
    for file in (folder / "q").glob("*.*"):
        if file.is_file() and file.name != "identity.json":
            file.rename(folder / "q" / UNFINISHED / file.name)
    with pytest.raises(DataError, match=r"iql\.steps=6 \(now 7\)"):
        trained(folder, ["iql.steps=7"])
    trained(folder, ["iql.steps=7"], again=True)
    assert not (folder / "q" / UNFINISHED).exists()


LEARNER = """
from bestofq.learning.iql import IQL

def learn(data, config):
    learned = IQL(data.dim, config)
    for parameter in learned.q.parameters():
        parameter.data.zero_()
    learned.q.out.bias.data += float(data.reward.max())
    return learned

def no_learner(data, config):
    return data
"""


async def test_a_learner_of_one_s_own_learns_by_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[[], str]
) -> None:
    (tmp_path / "learning_of_mine.py").write_text(LEARNER)
    monkeypatch.chdir(tmp_path)
    own = "iql.learner=learning_of_mine:learn"
    with pytest.raises(DataError, match=r"iql\.learner=iql"):
        trained(folder, [own])
    trained(folder, [own], again=True)
    assert read_card(folder / "q").config.learner == "learning_of_mine:learn"
    values = load_value(folder / "q", embed=read_card(folder / "q").embed)
    zeros = np.zeros((1, 1, read_card(folder / "q").embed.dim), np.float32)
    assert values.q(zeros[0], zeros, zeros[0]).tolist() == [[1.0]]
    printed()
    trained(folder, [own])
    assert "used as it is" in printed()
    with pytest.raises(ConfigError, match="no_learner"):
        trained(folder, ["iql.learner=learning_of_mine:no_learner"], again=True)


def test_iql_refuses_candidates_that_it_does_not_read() -> None:
    with pytest.raises(ValidationError, match="leave others out"):
        IQLConfig(others=True)
