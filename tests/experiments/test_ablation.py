"""Ablations, small, with a model that is a script: what they measure, share, continue and refuse."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_shop import Scripted
from typer.testing import CliRunner

from bestofq.config.context import open_suite
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.errors import ConfigError, DataError
from bestofq.recipes.collect import Play, collect
from bestofq.store.store import Store
from bestofq_sites.shipped import POCKET_WEB
from bestofq_sites.webshop.settings import WebShopSettings
from experiments import ablation
from experiments.__main__ import app
from experiments.ablation import read_ablation
from experiments.ablation_table import ArmResult, ablation_table, results_of
from experiments.ranking import OracleStep

ROOT = Path(__file__).parents[2]
EXPERIMENTS, HOW_TO = ROOT / "experiments", ROOT / "docs" / "how-to.md"
HEAD = """
title = "Expectile"
question = "How high?"
minutes = 1
config = "config.toml"
set = { iql.steps = 5, iql.network.hidden = [16], suite.step_limit = 4, suite.seed = 12 }
seeds = [0, 1]
test_tasks = 2

[data]
store = "STORE"
made_by = "make experiment"
"""
BASE = '[[arm]]\nname = "0.7"\n'
HIGH = '[[arm]]\nname = "0.9"\nlearn = { iql.expectile = 0.9 }\n'
OWN = """[[arm]]
name = "own episodes, fewer candidates"
collect = { epsilon = 0.25, seed_runs = 4, suite.train_tasks = 4 }
act = { n_candidates = 2 }
"""
A = '[[arm]]\nname = "a"\n'
PROMPTING = '[[arm]]\nname = "prompting"\nagent = "prompting"\n'


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, weights: str) -> Path:
    """A store with a pass over 5 training tasks, and one over a test task; and the model's weights."""
    folder = tmp_path_factory.mktemp("collected")
    (folder / "model").symlink_to(weights)
    model = ModelSettings(path=f"{folder}/model", dialect="composite")

    async def fill() -> None:
        models = Scripted(BestOfQSettings(model=model, suite=WebShopSettings(train_tasks=5, step_limit=4, seed=12)))
        async with open_suite(models) as suite:
            with Store.open(folder) as store:
                await collect(models, suite, store, "seed", Play("explore"))
                await collect(models, suite, store, "eval", Play("prompting", split="test", limit=1))

    asyncio.run(fill())
    return folder


scripted = pytest.fixture(autouse=True)(lambda monkeypatch: monkeypatch.setattr(ablation, "Models", Scripted))


def write(folder: Path, stored: Path, *arms: str, head: str = HEAD) -> Path:
    folder.mkdir(exist_ok=True)
    model = f"[model]\npath = '{stored}/model'\ndialect = 'composite'\n"
    iql = "[iql]\nbatch_size = 8\nprecision = 'fp32'\n[iql.network]\nproject = 'none'\n"
    (folder / "config.toml").write_text(model + iql)
    file = folder / "study.toml"
    file.write_text(head.replace("STORE", str(stored)) + "".join(arms), "utf-8")
    return file


def run(file: Path, out: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["ablation", str(file), "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads((file.parent / "result.json").read_text("utf-8"))
    return result


def kept(out: Path) -> tuple[set[str], dict[str, int]]:
    """Episodes and Q-functions, by what changes when they are made again."""
    with Store.open(out, read_only=True) as store:
        return {e.id for e in store.summaries()}, {q.name: q.stat().st_mtime_ns for q in (out / "q").iterdir()}


def test_an_ablation_measures_its_arms_shares_what_is_equal_and_goes_on(tmp_path: Path, stored: Path) -> None:
    first = run(write(tmp_path / "small", stored, BASE, HIGH), tmp_path / "out")
    before = kept(tmp_path / "out")
    with Store.open(stored, read_only=True) as store:
        assert {r.name for r in store.runs()} == {"seed", "eval"}  # only read
        seen = store.summaries(run="seed")
    file = write(tmp_path / "all", stored, BASE, HIGH, OWN, PROMPTING)
    result = run(file, tmp_path / "out")
    assert result["arms"][:2] == first["arms"]
    episodes, values = kept(tmp_path / "out")
    assert before[0] < episodes
    assert {name: values[name] for name in before[1]} == before[1]
    run(file, tmp_path / "out")
    assert kept(tmp_path / "out") == (episodes, values)

    base, high, own, prompting = result["arms"]
    assert (base["episodes"], base["successes"]) == (5, sum(e.success for e in seen))
    assert base["transitions"] == sum(e.steps for e in seen)
    assert len(set(base["values"]) | set(high["values"]) | set(own["values"])) == 6
    assert (own["episodes"], prompting["episodes"]) == (16, None)
    assert base["difference"] is None
    assert high["difference"]["tasks"] == 2
    assert [arm["tasks"] * arm["passes"] for arm in result["arms"]] == [4] * 4
    with Store.open(tmp_path / "out", read_only=True) as store:
        candidates = [
            len(step.decision.candidates)
            for run in own["runs"]
            for episode in store.episodes(run=run)
            for step in episode.steps
        ]
        assert {e.split for run in own["runs"] for e in store.summaries(run=run)} == {"test"}
    assert max(candidates) == 2
    table = (tmp_path / "all" / "table.md").read_text("utf-8")
    assert "own episodes, fewer candidates | 16 |" in table
    assert (tmp_path / "all" / "success.svg").read_text("utf-8").count("<rect") == 8
    assert result["study"]["question"] == "How high?"
    assert result["settings"]["iql"]["steps"] == 5


def test_an_arm_learns_from_the_tasks_and_as_many_episodes_as_it_says(tmp_path: Path, stored: Path) -> None:
    with Store.open(stored, read_only=True) as store:
        won = next(e.key.task for e in store.summaries(run="seed") if e.success)
    most, one = "data = { episodes = 4 }", f'data = {{ tasks = "{won}, none*" }}'
    arms = f'[[arm]]\nname = "most"\n{most}\n[[arm]]\nname = "one"\n{one}\n'
    head = HEAD.replace("test_tasks = 2", "test_tasks = 0")
    found = run(write(tmp_path, stored, arms, head=head), tmp_path / "out")["arms"]
    assert [arm["episodes"] for arm in found] == [4, 1]
    assert found[1]["successes"] == 1
    assert found[0]["right"] is found[0]["success"] is None


def test_what_another_setting_or_other_weights_would_play_is_not_taken_for_done(
    tmp_path: Path, stored: Path, weights: str
) -> None:
    model = tmp_path / "model"
    model.symlink_to(weights)
    head = HEAD.replace("test_tasks = 2", "test_tasks = 1")
    head = head.replace("seeds = [0, 1]", "seeds = [0]").replace("[16]", f"[16], model.path = '{model}'")
    warmth = (f'[[arm]]\nname = "{n}"\nagent = "vote"\nact = {{ model.temperature = 0.{n} }}\n' for n in (2, 3))
    file = write(tmp_path / "study", stored, *warmth, head=head)
    before = [run for arm in run(file, tmp_path / "out")["arms"] for run in arm["runs"]]
    model.unlink()
    model.symlink_to(POCKET_WEB)
    after = [run for arm in run(file, tmp_path / "out")["arms"] for run in arm["runs"]]
    assert len({*before, *after}) == 4
    with Store.open(tmp_path / "out", read_only=True) as store:
        assert {episode.run for episode in store.summaries()} == {*before, *after}


@pytest.mark.parametrize(
    ("arms", "error", "said"),
    [
        (A + "learn = { iql.expectil = 0.9 }\n", ConfigError, "'a'.*iql.expectil.*iql.expectile"),
        (BASE + BASE, ConfigError, "two arms are called '0.7'"),
        (A + "data = { episodes = 6 }\n", DataError, "learn from 6 episodes .* there are 5"),
        (A + 'data = { runs = ["sed"] }\n', DataError, "no run 'sed'.*seed"),
        (A + 'data = { store = "nowhere" }\n', DataError, "`make experiment` makes them"),
        (A + "learn = { n_candidates = 5 }\n", DataError, "collected with n_candidates=3"),
        (A + 'learn = { endpoints.chat.model = "m" }\n', DataError, r"collected with chat\.\w+=none"),
        (A + 'data = { runs = ["eval"] }\n', DataError, "'eval', which is of the split test"),
        (A + "act = { model.embed.layer = 2 }\n", ConfigError, "other embeddings"),
        (A + "act = { suite.seed = 7 }", ConfigError, "'a' learns with suite.seed = 12 and acts with 7: tasks and"),
        (A + 'agent = "random"\nact = { suite.data = "x" }', ConfigError, "with suite.data = none and acts with x"),
        (A + "collect = { suite.seed = 7 }\nlearn = { suite.seed = 8 }", ConfigError, "collects with suite.seed = 7"),
    ],
)
def test_a_bad_ablation_is_refused(arms: str, error: type[Exception], said: str, tmp_path: Path, stored: Path) -> None:
    with pytest.raises(error, match=said) as told:
        run(write(tmp_path, stored, arms), tmp_path / "out")
    assert "\n" not in str(told.value)


def test_an_arm_may_act_on_a_part_of_the_tasks_it_learned_from(tmp_path: Path, stored: Path) -> None:
    same = A + 'collect = { suite.seed = 7 }\nact = { suite.only = "P1*", suite.env = "browser" }\n'
    read_ablation(write(tmp_path, stored, same))


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*/study.toml")), ids=lambda file: file.parent.name)
def test_the_studies_of_the_repository_are_understood(file: Path) -> None:
    asked, configs = read_ablation(file)
    assert len(configs) >= 3
    readme = (file.parent / "README.md").read_text("utf-8")
    assert f"About {asked.minutes} minutes on two cores" in " ".join(readme.split())
    assert f"python -m experiments ablation experiments/{file.parent.name}/study.toml" in readme


def test_the_ablation_in_the_how_to_is_understood(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(title = .*?)^```$", HOW_TO.read_text("utf-8"), re.M | re.S)
    (tmp_path / "webshop-pocket").mkdir()
    (tmp_path / "webshop-pocket" / "config.toml").write_text("", "utf-8")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.toml").write_text(text, "utf-8")
    _, (base, higher, own) = read_ablation(tmp_path / "study" / "study.toml")
    assert [arm.learning.iql.expectile for arm in (base, higher, own)] == [0.7, 0.9, 0.9]
    assert (base.collecting, own.acting.n_candidates, own.learning.iql.steps) == (None, 5, 600)


def arm(name: str, *seeds: Sequence[int]) -> ArmResult:
    """Of three steps of three tasks, each with its second candidate right, what was chosen."""
    ranked = [
        [OracleStep("item", ("s", task), (False, True), at) for task, at in zip("tuv", chosen, strict=True)]
        for chosen in seeds
    ]
    return ArmResult(name=name, values=["q0", "q1"], ranked=ranked)


def test_right_choices_over_seeds_and_their_difference_to_the_first_arm() -> None:
    base, other = results_of([arm("base", (0, 1, 1), (0, 0, 1)), arm("other", (1, 1, 1), (0, 0, 1))])
    assert (base.right.value, base.right_by_seed) == (0.5, (2 / 3, 1 / 3))
    assert other.right_difference.mean == pytest.approx(4 / 6 - 3 / 6)
    assert other.right_difference.tasks == base.contested == 3
    assert (base.first, base.chance, base.right_difference) == (0.0, 0.5, None)
    assert any(text.startswith("+16.7 [") for text in ablation_table("T", [base, other]).texts()[1])
