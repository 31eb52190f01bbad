"""The Best-of-Q experiment, small, with the shipped pocket model: from the first episode to the committed files."""

import json
from pathlib import Path

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.store.store import Store
from bestofq_sites.webshop.settings import WebShopSettings
from experiments.best_of_q import COMPARED, run_best_of_q

SMALL = BestOfQSettings(
    suite=WebShopSettings(train_tasks=3, step_limit=4),
    iql=IQLConfig(steps=10, network=NetworkConfig(hidden=(32,), project=None), batch_size=8, precision="fp32"),
    seed_runs=1,
    cycles=1,
    runs_per_cycle=1,
)


async def test_the_files_hold_the_recipe_s_curve_and_all_agents(tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    await run_best_of_q(Models(SMALL), out=out, results=results, tasks=1, runs=1, dev_tasks=1)
    with Store.open(out, read_only=True) as store:
        episodes = sum(len(store.summaries(run=run.name)) for run in store.runs())
    found = json.loads((results / "result.json").read_text("utf-8"))
    assert episodes == 2 * 3 + 3 + len(COMPARED)  # seed and cycle; dev passes of q0, q1 and prompting; test
    assert set(found) >= {"command", "commit", "settings", "collected", "dev_curve", "dev_prompting", "test"}
    assert list(found["collected"]) == ["seed", "cycle-1"]
    assert [point["episodes"] for point in found["dev_curve"]] == [3, 6]
    assert [row["agent"] for row in found["test"]["rows"]] == [*COMPARED]
    ranked = found["ranking_on_test"]
    assert set(ranked) == {*COMPARED} - {"prompting"}
    assert ranked["best-of-q"]["all"]["steps"] > 0
    for name in ("table.md", "success.svg", "curve.svg"):
        assert (results / name).stat().st_size
    pages = "".join(page.read_text("utf-8") for page in (out / "report").glob("*.html"))
    assert "Where steps go wrong" in pages
