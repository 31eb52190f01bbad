"""An ablation whose Q-functions rank stored dev steps, rated by the oracle, with the shipped pocket model."""

import json
from pathlib import Path

from typer.testing import CliRunner

from bestofq.store.store import Store
from experiments.__main__ import app

FILE = """
title = "Expectile"
question = "How high?"
minutes = 1
config = "config.toml"
set = { iql.steps = 5, iql.network.hidden = [16], suite.step_limit = 8 }
seeds = [0, 1]
dev_tasks = 2
test_tasks = 0

[[arm]]
name = "0.7"
collect = { seed_runs = 1, suite.train_tasks = 12 }

[[arm]]
name = "0.9"
collect = { seed_runs = 1, suite.train_tasks = 12 }
learn = { iql.expectile = 0.9 }
"""


def test_arms_are_ranked_on_the_same_dev_steps_and_nothing_is_done_twice(tmp_path: Path) -> None:
    file, out = tmp_path / "ablation.toml", tmp_path / "out"
    (tmp_path / "config.toml").write_text(
        "[iql]\nbatch_size = 8\nprecision = 'fp32'\n[iql.network]\nproject = 'none'\n"
    )
    file.write_text(FILE, "utf-8")

    def run() -> tuple[list[dict[str, object]], set[str]]:
        CliRunner().invoke(app, ["ablation", str(file), "--out", str(out)], catch_exceptions=False)
        with Store.open(out, read_only=True) as store:
            episodes = {e.id for e in store.summaries()}
            assert sum(e.split == "dev" for e in store.summaries()) == 2
        return json.loads((tmp_path / "result.json").read_text("utf-8"))["arms"], episodes

    (base, high), episodes = run()
    assert base["right_difference"] is base["success"] is None
    assert high["right_difference"]["tasks"] == 2  # type: ignore[index]
    assert len(base["right_by_seed"]) == len(high["right_by_seed"]) == 2  # type: ignore[arg-type]
    assert base["contested"] == high["contested"]
    assert (tmp_path / "ranking.svg").read_text("utf-8").count("<rect") == 4
    assert not (tmp_path / "success.svg").exists()
    assert run() == ([base, high], episodes)
