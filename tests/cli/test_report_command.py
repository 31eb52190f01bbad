"""`report` and `compare` as they are typed."""

import asyncio
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from bestofq.cli.commands import app
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Outcome, Provenance, Step, Verdict
from bestofq.core.errors import CheckpointError, ConfigError, DataError, InputError
from bestofq.core.gate import Gate
from bestofq.core.observation import Observation, Task
from bestofq.learning.checkpoint import read_card
from bestofq.reports.estimate import FILE, OffPolicyEstimate
from bestofq.rollouts.console import console
from bestofq.store.store import Store

MADE = Provenance(version="0.0-test", commit="0123456789abcdef", command="bestofq eval --n 2")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_width", 500)  # and not `width`, which would stay for other files


def type_in(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    if found.exception is not None:
        raise found.exception
    return found.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two agents on two tasks, with a judge beside the environment's verdicts."""

    async def fill(store: Store) -> None:
        agents = {"best-of-q": {"n": 2}}
        await store.begin_run("eval", {"n_candidates": 2, "model": {"path": "pocket"}}, MADE, agents=agents)
        for agent in ("prompting", "best-of-q"):
            for name in ("shop/a", "shop/b"):
                what = Task(id=name, suite="s", goal="g", start_url="http://s.example/")
                episode = await store.begin_episode("eval", agent, what, 0, MADE)
                good = agent == "best-of-q"
                value = 0.5 if good else None
                decision = Decision(candidates=ACTIONS, scores=(0.2, 0.7), state_value=value, chosen=int(good))
                await store.append_step(episode, Step(index=0, observation=PAGE, decision=decision))
                outcome: Outcome = "success" if good or name == "shop/a" else "failure"
                await store.finish_episode(episode, Verdict(reward=float(outcome == "success"), outcome=outcome), None)
                told = Verdict(reward=float(outcome == "success"), outcome=outcome, judge="j")
                await store.add_verdict(episode, told, adopt=False)
                await store.begin_run("judged", {}, MADE)
                other = await store.begin_episode("judged", agent, what, 0, MADE)
                await store.finish_episode(other, Verdict(reward=0.0, outcome="unjudged"), None)
                await store.add_verdict(other, told, adopt=True)

    with Store.open(tmp_path / "store") as store:
        asyncio.run(fill(store))
    return tmp_path / "store"


def test_tables_are_printed_by_name(folder: Path) -> None:
    said = type_in(
        "report", str(folder), "--run", "eval", "--table", "agents", "--table", "reliability", "--baseline", "prompting"
    )
    assert "+50.0 [+0.0, +100.0]" in said
    assert "pass@k" in said
    assert "Calibration" not in said
    with pytest.raises(InputError, match=r"no table 'nothing' of these runs: there are agents, reliability"):
        type_in("report", str(folder), "--table", "nothing")


def test_tables_are_written_with_where_they_come_from(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    type_in("report", "--store", str(folder), "--run", "eval", "--csv", str(out), "--json", str(out))
    first, second = csv.DictReader((out / "agents.csv").read_text("utf-8").splitlines())
    assert (first["commit"], first["command"]) == (MADE.commit, MADE.command)
    assert (first["model"], first["N"], second["N"]) == ("pocket", "1", "2")
    assert json.loads((out / "reliability.json").read_text("utf-8"))["name"] == "reliability"


def test_the_pages_lie_in_the_folder_of_html_or_the_store(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    type_in("report", str(folder), "--html", str(tmp_path / "out"))
    assert (tmp_path / "out" / "index.html").exists()
    type_in("report", str(folder))
    assert (folder / "report" / "index.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


def test_looking_at_runs_loads_no_model_and_no_browser(folder: Path, tmp_path: Path) -> None:
    """As typed, in a process of its own; `view` ends at a port that is none of this machine's."""
    commands = (
        ["report", str(folder), "--table", "all", "--html", str(folder / "out")],
        ["report", str(folder), "--by", "agent"],
        ["view", str(folder), "--host", "203.0.113.1"],
        ["view", str(tmp_path / "nothing")],
    )
    code = (
        "import sys\n"
        "from bestofq.cli.main import run\n"
        f"for words in {commands!r}:\n"
        "    sys.argv = ['bestofq', *words]\n"
        "    try:\n        run()\n    except SystemExit:\n        pass\n"
        "print('loaded:', [m for m in ('torch', 'transformers', 'openai', 'playwright') if m in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.rstrip().endswith("loaded: []")
    assert (folder / "out" / "index.html").exists()


def test_compare_groups_by_settings_and_draws_bars(folder: Path, tmp_path: Path) -> None:
    svg = tmp_path / "bars.svg"
    said = type_in(
        *("report", str(folder), str(folder), "--by", "n_candidates", "--by", "agent", "--svg", str(svg)),
        *("--csv", str(tmp_path), "--markdown", str(tmp_path)),
    )
    assert "best-of-q" in (tmp_path / "by-n_candidates-agent.md").read_text("utf-8")
    assert "Success by n_candidates, agent" in said
    assert "best-of-q" in svg.read_text("utf-8")
    assert (tmp_path / "by-n_candidates-agent.csv").exists()


SETTINGS = ("iql.steps=30", "iql.lr_q=0.012", "iql.network.hidden=[16]", "iql.network.dropout=0")
PAGE = Observation(url="http://shop/", title="Shop", text="Red [1] Blue [2]", elements=())
ACTIONS = (Candidate(action=Click(mark=1), label="click Red"), Candidate(action=Click(mark=2), label="click Blue"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty tasks, each explored twice: the proposer's Red succeeds in 20 %, Blue in 90. `seed` and `later` are other
    tasks, `few` are eight; in `alone` an agent that does not explore clicked what it liked. `again` are those of
    `seed`, once more."""
    folder = tmp_path_factory.mktemp("estimate") / "shop"
    asyncio.run(fill(folder))
    return folder


async def fill(folder: Path) -> None:
    made, rng = Provenance(version="test", seed=0), np.random.default_rng(0)
    with Store.open(folder) as store:
        for run in ("seed", "later", "alone", "again", "few"):
            named = "seed" if run == "again" else run
            agent = "prompting" if run == "alone" else "explore"
            await store.begin_run(run, {"epsilon": 0.5}, made)
            for number in range(16 if run == "few" else 80):
                task = Task(
                    id=f"{named}-{number // 2}", suite="shop", goal="buy a hat", start_url=PAGE.url, split="train"
                )
                episode = await store.begin_episode(run, agent, task, number % 2, made)
                chosen = int(rng.integers(2))
                won = bool(rng.random() < (0.9 if chosen else 0.2))
                decision = Decision(candidates=ACTIONS, scores=(0.0, 0.0), chosen=chosen)
                step = Step(index=0, observation=PAGE, decision=decision, reward=float(won), terminated=True)
                await store.append_step(episode, step)
                verdict = Verdict(reward=float(won), outcome="success" if won else "failure")
                await store.finish_episode(episode, verdict, PAGE)


def bestofq(command: str, shop: Path, *more: str) -> Result:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    done = CliRunner().invoke(app, [command, "--store", str(shop), *settings, *more])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def q(shop: Path) -> Path:
    bestofq("train", shop, "--out", str(shop / "q"), "--no-estimate")
    return shop / "q"


def copied(q: Path, to: Path) -> Path:
    """The Q-function alone, without an estimate and what was tried."""
    return Path(shutil.copytree(q, to, ignore=shutil.ignore_patterns(FILE, "trials")))


def test_training_ends_with_what_to_expect(shop: Path, tmp_path: Path) -> None:
    said = bestofq("train", shop, "--out", str(tmp_path / "q")).output
    assert "AUC 0." in said.splitlines()[-2]
    found = OffPolicyEstimate.read(tmp_path / "q")
    assert found.lift.mean > 0.3
    assert found.episodes == 22  # of the 11 tasks of a fifth
    assert found.checkpoint == Path(read_card(tmp_path / "q").weights).stem
    made = (tmp_path / "q" / FILE).stat().st_mtime_ns
    again = bestofq("train", shop, "--out", str(tmp_path / "q")).output
    assert again.splitlines()[-1] == said.splitlines()[-1]
    assert (tmp_path / "q" / FILE).stat().st_mtime_ns == made


def test_too_few_tasks_are_refused_before_a_training(shop: Path) -> None:
    """Of these eight, some lie in the first fifth and none in another."""
    with pytest.raises(DataError, match="--folds 1"):
        type_in("estimate", "--store", str(shop), "--run", "few", "--set", "iql.steps=1")
    assert not (shop / "trials").exists()


def test_a_q_function_is_not_judged_by_what_it_learned_from(shop: Path, q: Path) -> None:
    said = bestofq("estimate", shop, "--q", str(q)).output
    assert "learned from these tasks" in said
    assert "\ndeploy: expected +" in said
    assert len([*(q / "trials").iterdir()]) == 10  # fifths of the tasks, and of the passes
    found = OffPolicyEstimate.read(q)
    assert (found.episodes, found.exploring, found.tasks) == (80, 80, 40)
    assert found.lift.mean == pytest.approx(0.7, abs=0.15)


def test_by_other_tasks_it_is_judged_itself(shop: Path, q: Path, tmp_path: Path) -> None:
    own = copied(q, tmp_path / "q")
    said = bestofq("estimate", shop, "--q", str(own), "--run", "seed", "--run", "later").output
    assert "learned from these tasks" not in said
    found = OffPolicyEstimate.read(own)
    assert found.tasks == 40  # those of `later`
    assert not (own / "trials").exists()


def test_what_other_episodes_of_its_tasks_say_is_not_kept_as_its_own(shop: Path, q: Path, tmp_path: Path) -> None:
    own = copied(q, tmp_path / "q")
    said = bestofq("estimate", shop, "--q", str(own), "--run", "again", "--folds", "1").output
    assert "learned from other episodes of these tasks" in said
    assert "expected +" in said
    assert OffPolicyEstimate.read(own) is None


def test_a_q_function_of_the_first_episodes_is_judged_by_those(shop: Path, tmp_path: Path) -> None:
    bestofq("train", shop, "--out", str(tmp_path / "q"), "--no-estimate", "--episodes", "40")
    bestofq("estimate", shop, "--q", str(tmp_path / "q"), "--folds", "1")
    found = OffPolicyEstimate.read(tmp_path / "q")
    assert found.episodes == 11  # the first of each task of a fifth
    assert found.checkpoint == Path(read_card(tmp_path / "q").weights).stem


def test_a_q_function_of_another_embedder_is_not_judged(shop: Path, q: Path, tmp_path: Path) -> None:
    own = copied(q, tmp_path / "q")
    with pytest.raises(CheckpointError, match="trained on other embeddings"):
        type_in("estimate", "--store", str(shop), "--q", str(own), "--set", "model.embedder=pocket-web")
    assert OffPolicyEstimate.read(own) is None


def test_where_nobody_explores_the_gain_is_not_known(shop: Path, q: Path) -> None:
    said = bestofq("estimate", shop, "--q", str(q), "--run", "alone").output
    assert "\nnot known: " in said
    found = OffPolicyEstimate.read(q)
    assert found.exploring == 0
    assert found.auc.value is not None


def test_serving_refuses_a_shut_gate_and_one_of_another_q_unless_one_insists(shop: Path, q: Path) -> None:
    bestofq("estimate", shop, "--q", str(q), "--run", "later")
    good = OffPolicyEstimate.read(q)
    serve = ("serve", "--upstream", "nowhere", "--rank", str(q))
    with pytest.raises(InputError, match="nowhere"):
        type_in(*serve)
    assert any(threshold is not None for threshold in Gate.load(q, good.checkpoint).thresholds)
    shut = Gate(checkpoint=good.checkpoint, thresholds=(None,) * 5)
    shut.save(q)
    with pytest.raises(ConfigError, match="--insist"):
        type_in(*serve)
    with pytest.raises(InputError, match="nowhere"):
        type_in(*serve, "--insist")
    shut.model_copy(update={"checkpoint": "value-of-another"}).save(q)
    with pytest.raises(ConfigError, match="--insist"):  # nothing tells where this one helps
        type_in(*serve)
