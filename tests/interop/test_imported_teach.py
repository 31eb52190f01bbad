"""Imported episodes, from the file to a Q-function, a report and the pages."""

from pathlib import Path

from logs import bestofq, shop_episode, written
from starlette.testclient import TestClient

from bestofq.learning.checkpoint import CARD
from bestofq.store.store import Store
from bestofq.viewer.app import viewer_app


def test_imported_episodes_teach_and_are_reported_and_shown(tmp_path: Path) -> None:
    log, store, q = (
        written(tmp_path / "log.jsonl", *(shop_episode(n, site="uk") for n in range(8))),
        tmp_path / "store",
        tmp_path / "q",
    )
    bestofq("import", "jsonl", log, "--store", store, "--run", "logs")
    settings = ("iql.steps=5", "iql.batch_size=4", "iql.network.hidden=[8, 8]")
    said = bestofq("train", "--run", "logs", "--store", store, "--out", q, *(w for s in settings for w in ("--set", s)))
    assert "16 transitions" in said
    assert (q / CARD).exists()
    assert "50.0" in bestofq("report", store, "--table", "agents")
    with Store.open(store, read_only=True) as opened:
        page = TestClient(viewer_app(opened, name="logs"), base_url="http://127.0.0.1").get(
            f"/episode/{opened.summaries()[0].id}"
        )
    assert page.status_code == 200
    assert "Blue kettle" in page.text
    assert "site" in page.text  # what has no field of ours
