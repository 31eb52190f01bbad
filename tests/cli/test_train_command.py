"""`bestofq train`: `--try` compares settings on held-out episodes; killed, it learns the same."""

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
from bestofq.core.errors import DataError
from bestofq.core.observation import Observation, Task
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.recipes.estimate import fold_of
from bestofq.recipes.identity import UNFINISHED
from bestofq.recipes.q_training import select_episodes
from bestofq.reports.estimate import OffPolicyEstimate
from bestofq.rollouts.console import console
from bestofq.store.records import EpisodeKey
from bestofq.store.store import Store

TRYING = ("iql.steps=150", "iql.lr_q=0.003", "iql.network.hidden=[16]", 'iql.network.q_without=["action"]')
LEARNED = "iql.network.q_without=[] iql.network.dropout=0"
SMALL = ("iql.steps=300", "iql.batch_size=8", "iql.network.hidden=[16, 8]", "iql.precision=fp32")
PAGE = Observation(url="http://shop/", title="Shop", text="Red [1] Blue [2]", elements=())
ACTIONS = (Candidate(action=Click(mark=1), label="click Red"), Candidate(action=Click(mark=2), label="click Blue"))
BLUE_ALONE = ((0, False), (1, True))
PLAYS: dict[str, tuple[tuple[int, bool], ...]] = {  # by run, of each task: the action chosen, and whether it won
    **dict.fromkeys(("seed", "sure", "few", "lost"), BLUE_ALONE),
    "alike": ((1, False), (1, True)),
    "luck": (*BLUE_ALONE, (1, False)),
}


async def play_all(folder: Path) -> None:
    """Thirty tasks, each played twice. In the run `seed` they are done by Blue and by nothing else, in `alike` Blue is
    always clicked, and half of the episodes fail. In `sure` the proposer also finds Blue likelier; in `luck` Blue also
    fails once. In `few` none is held out from a trial, in `lost` those that are fail."""
    made = Provenance(version="test", seed=0)
    with Store.open(folder) as store:
        for run, plays in PLAYS.items():
            await store.begin_run(run, {}, made)
            for number, (repeat, (chosen, won)) in product(range(30), enumerate(plays)):
                held_out = fold_of(EpisodeKey("shop", f"t{number}", repeat)) == 0
                if run == "few" and held_out:
                    continue
                won = won and not (run == "lost" and held_out)
                task = Task(id=f"t{number}", suite="shop", goal=f"buy hat {number}", start_url=PAGE.url, split="train")
                episode = await store.begin_episode(run, "explore", task, repeat, made)
                likely = (-2.0, -0.2) if run == "sure" else (-0.2, -2.0)
                offered = tuple(
                    one.model_copy(update={"log_prob": p, "thought": f"try {repeat}"})
                    for one, p in zip(ACTIONS, likely, strict=True)
                )
                decision = Decision(candidates=offered, scores=(0.0, 0.0), chosen=chosen)
                step = Step(index=0, observation=PAGE, decision=decision, reward=float(won), terminated=True)
                await store.append_step(episode, step)
                verdict = Verdict(reward=float(won), outcome="success" if won else "failure")
                await store.finish_episode(episode, verdict, PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store`, which holds the played runs."""
    made = tmp_path_factory.mktemp("train")
    asyncio.run(play_all(made / "store"))
    return made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "q"


def words_of(folder: Path, out: Path, settings: tuple[str, ...], *more: str) -> list[str]:
    chosen = [word for setting in settings for word in ("--set", setting)]
    return ["train", "--store", str(folder / "store"), "--out", str(out), "--no-estimate", *chosen, *more]


def train(folder: Path, out: Path, *more: str) -> Result:
    return CliRunner().invoke(app, words_of(folder, out, TRYING, *more), env={"COLUMNS": "200"})


def alone(words: list[str]) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "500"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 200)


def test_what_ranks_held_out_siblings_best_learns_from_all(folder: Path, out: Path) -> None:
    done = train(folder, out, "--try", LEARNED)
    assert done.exit_code == 0, done.output
    assert f"Chosen: {LEARNED}." in done.output
    (proposer,) = (line for line in done.output.splitlines() if "the proposer's likelihood" in line)
    assert " 0.0 [" in proposer  # it prefers Red
    assert "no better" not in done.output
    card = read_card(out)
    assert card.config.network.q_without == ()
    assert card.episodes is not None
    assert card.episodes.count == 60
    kept = [read_card(trial) for trial in (out / "trials").iterdir()]
    assert {one.config.network.q_without for one in kept} == {(), ("action",)}
    assert {one.episodes.count for one in kept if one.episodes} == {48}  # six of the thirty tasks are held out

    made = {path: path.stat().st_mtime_ns for path in out.rglob(CARD)}
    assert f"Chosen: {LEARNED}." in train(folder, out, "--try", LEARNED).output
    assert {path: path.stat().st_mtime_ns for path in out.rglob(CARD)} == made  # nothing is learned again


def test_a_q_function_that_knows_no_more_than_the_proposer_is_told_of(folder: Path, out: Path) -> None:
    assert "no better" in train(folder, out, "--run", "sure", "--try", LEARNED).output


def test_all_settings_are_judged_on_the_same_pairs_of_actions(folder: Path, out: Path) -> None:
    thoughts = "model.embed.action=reasoning"  # the same click with another thought is no other action
    printed = train(folder, out, "--run", "luck", "--try", thoughts).output
    rows = [line.split() for line in printed.splitlines() if line.startswith(("as given  ", f"{thoughts}  "))]
    assert [row[-2:] for row in rows] == [["6", "6"]] * 2  # a pair of each held-out task
    train(folder, out, "--run", "luck", "--set", thoughts, "--estimate", "--out", str(out / "thinking"))
    estimate = OffPolicyEstimate.read(out / "thinking")
    assert estimate is not None
    assert estimate.pairs == 6


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        *((("--run", run, "--try", LEARNED), DataError, "several passes") for run in ("alike", "few", "lost")),
        (("--episodes", "61"), DataError, "60 decided episodes, fewer than 61"),
        (
            ("--run", "seed", "--run", "nope"),
            DataError,
            "there is no run 'nope' in the store: it has alike, few, lost, luck, seed, sure: give --run alike",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused_and_nothing_is_learned(
    more: tuple[str, ...], error: type[Exception], words: str, folder: Path, out: Path
) -> None:
    done = train(folder, out, *more)
    assert isinstance(done.exception, error)
    assert words in str(done.exception)
    assert not out.exists()


def test_a_dry_run_tells_of_each_and_learns_nothing(folder: Path, out: Path) -> None:
    printed = train(folder, out, "--try", "iql.steps=7", "--episodes", "40", "--dry-run").output
    for words in ("from 40 episodes of seed", "150 steps of", "7 steps of"):
        assert words in " ".join(printed.split())
    assert not out.exists()


def test_the_first_episodes_teach_pass_after_pass(folder: Path, out: Path) -> None:
    done = train(folder, out, "--episodes", "40", "--set", "iql.steps=5")
    assert done.exit_code == 0, done.output
    known = read_card(out).episodes
    assert known is not None
    assert known.count == 40
    with Store.open(folder / "store", read_only=True) as store:
        first = select_episodes(store, ["seed"], 40)
    assert [e.key.repeat for e in first] == [0] * 30 + [1] * 10
    assert [e.key.task for e in first[:10]] == [e.key.task for e in first[30:]]


@pytest.fixture(scope="module")
def killed(folder: Path) -> Path:
    """A training killed after some steps; beside it lies `through`, one that never stopped."""
    out = folder / "killed"
    alone([*words_of(folder, folder / "through", SMALL), "--log-to", "tensorboard"])
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
    printed = alone(words_of(folder, out, SMALL))
    assert f"after step {step}" in printed
    assert not (out / UNFINISHED).exists()
    assert read_card(out).weights == read_card(folder / "through").weights  # named by their hash
    assert [*(folder / "through" / "tensorboard").glob("events*")]
