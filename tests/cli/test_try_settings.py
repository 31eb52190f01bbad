"""`train --try`: settings that rank held-out episodes better are found, and trained with."""

import asyncio
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bestofq.cli.commands import app
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Provenance, Step, Verdict
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.observation import Observation, Task
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.recipes.estimate import fold_of
from bestofq.recipes.q_training import select_episodes
from bestofq.reports.estimate import OffPolicyEstimate
from bestofq.rollouts.console import console
from bestofq.store.records import EpisodeKey
from bestofq.store.store import Store

SETTINGS = ("iql.steps=150", "iql.lr_q=0.003", "iql.network.hidden=[16]", 'iql.network.q_without=["action"]')
LEARNED = "iql.network.q_without=[] iql.network.dropout=0"
PAGE = Observation(url="http://shop/", title="Shop", text="Red [1] Blue [2]", elements=())
ACTIONS = (Candidate(action=Click(mark=1), label="click Red"), Candidate(action=Click(mark=2), label="click Blue"))

BLUE_ALONE = ((0, False), (1, True))
PLAYS: dict[str, tuple[tuple[int, bool], ...]] = {  # by run, of each task: the action chosen, and whether it won
    **dict.fromkeys(("seed", "sure", "few", "lost"), BLUE_ALONE),
    "alike": ((1, False), (1, True)),
    "luck": (*BLUE_ALONE, (1, False)),
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 200)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tried") / "shop"
    asyncio.run(play_all(folder, *PLAYS))
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "q"


async def play_all(folder: Path, *runs: str) -> None:
    """Thirty tasks, each played twice. In the run `seed` they are done by Blue and by nothing else, in `alike` Blue is
    always clicked, and half of the episodes fail. In `sure` the proposer also finds Blue likelier; in `luck` Blue also
    fails once. In `few` none is held out from a trial, in `lost` those that are fail."""
    made = Provenance(version="test", seed=0)
    with Store.open(folder) as store:
        for run in runs:
            await store.begin_run(run, {}, made)
            for number, (repeat, (chosen, won)) in product(range(30), enumerate(PLAYS[run])):
                held_out = fold_of(EpisodeKey("shop", f"t{number}", repeat)) == 0
                if run == "few" and held_out:
                    continue
                won = won and not (run == "lost" and held_out)
                task = Task(id=f"t{number}", suite="shop", goal=f"buy hat {number}", start_url=PAGE.url, split="train")
                episode = await store.begin_episode(run, "explore", task, repeat, made)
                likely = (-2.0, -0.2) if run == "sure" else (-0.2, -2.0)
                seen = tuple(
                    one.model_copy(update={"log_prob": p, "thought": f"try {repeat}"})
                    for one, p in zip(ACTIONS, likely, strict=True)
                )
                decision = Decision(candidates=seen, scores=(0.0, 0.0), chosen=chosen)
                step = Step(index=0, observation=PAGE, decision=decision, reward=float(won), terminated=True)
                await store.append_step(episode, step)
                verdict = Verdict(reward=float(won), outcome="success" if won else "failure")
                await store.finish_episode(episode, verdict, PAGE)


def train(shop: Path, out: Path, *more: str) -> Result:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    words = ["train", "--store", str(shop), "--out", str(out), "--no-estimate", *settings, *more]
    return CliRunner().invoke(app, words)


def test_what_ranks_held_out_siblings_best_learns_from_all(shop: Path, out: Path) -> None:
    done = train(shop, out, "--try", LEARNED)
    assert done.exit_code == 0, done.output
    assert f"Chosen: {LEARNED}." in done.output
    (proposer,) = (line for line in done.output.splitlines() if "the proposer's likelihood" in line)
    assert " 0.0 [" in proposer  # it prefers Red
    assert "no better" not in done.output
    card = read_card(out)
    assert card.config.network.q_without == ()
    assert card.episodes is not None
    assert card.episodes.count == 60
    kept = [read_card(folder) for folder in (out / "trials").iterdir()]
    assert {one.config.network.q_without for one in kept} == {(), ("action",)}
    assert {one.episodes.count for one in kept if one.episodes} == {48}  # six of the thirty tasks are held out

    made = {path: path.stat().st_mtime_ns for path in out.rglob(CARD)}
    assert f"Chosen: {LEARNED}." in train(shop, out, "--try", LEARNED).output
    assert {path: path.stat().st_mtime_ns for path in out.rglob(CARD)} == made  # nothing is learned again


def test_a_q_function_that_knows_no_more_than_the_proposer_is_told_of(shop: Path, out: Path) -> None:
    assert "no better" in train(shop, out, "--run", "sure", "--try", LEARNED).output


@pytest.mark.parametrize("run", ["alike", "few", "lost"])
def test_without_sibling_actions_nothing_can_be_tried_and_nothing_is_learned(run: str, shop: Path, out: Path) -> None:
    done = train(shop, out, "--run", run, "--try", LEARNED)
    assert isinstance(done.exception, DataError)
    assert "several passes" in str(done.exception)
    assert not (out).exists()


def test_all_settings_are_judged_on_the_same_pairs_of_actions(shop: Path, out: Path) -> None:
    thoughts = "model.embed.action=reasoning"  # the same click with another thought is no other action
    said = train(shop, out, "--run", "luck", "--try", thoughts).output
    rows = [line.split() for line in said.splitlines() if line.startswith(("as given  ", f"{thoughts}  "))]
    assert [row[-2:] for row in rows] == [["6", "6"]] * 2  # a pair of each held-out task
    train(shop, out, "--run", "luck", "--set", thoughts, "--estimate", "--out", str(out / "thinking"))
    told = OffPolicyEstimate.read(out / "thinking")
    assert told is not None
    assert told.pairs == 6


def test_a_dry_run_tells_of_each_and_learns_nothing(shop: Path, out: Path) -> None:
    said = train(shop, out, "--try", "iql.steps=7", "--dry-run").output
    assert "150 steps of" in said
    assert "7 steps of" in said
    assert not (out).exists()


def test_processes_of_torchrun_do_not_try(shop: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert isinstance(train(shop, out, "--try", LEARNED).exception, ConfigError)


def test_the_first_episodes_teach_pass_after_pass_and_too_few_are_refused(shop: Path, out: Path) -> None:
    assert "from 40 episodes of seed" in " ".join(train(shop, out, "--episodes", "40", "--dry-run").output.split())
    done = train(shop, out, "--episodes", "40")
    assert done.exit_code == 0, done.output
    known = read_card(out).episodes
    assert known is not None
    assert known.count == 40
    with Store.open(shop, read_only=True) as store:
        first = select_episodes(store, ["seed"], 40)
    assert [e.key.repeat for e in first] == [0] * 30 + [1] * 10
    assert [e.key.task for e in first[:10]] == [e.key.task for e in first[30:]]
    refused = train(shop, out, "--episodes", "61").exception
    assert isinstance(refused, DataError)
    assert "60 decided episodes, fewer than 61" in str(refused)
