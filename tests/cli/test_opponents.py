"""The agents that spend by need play by their names, and a run keeps their settings."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.core.decision import Episode
from bestofq.store.store import Store

SETTINGS = ("suite.step_limit=3", "adaptive.enough=-9", "adaptive.low=9", "catts.arbiter=q", "catts.threshold=0")


def proposer(episode: Episode) -> tuple[int, int]:
    """Calls and tokens written of the proposer."""
    used = [one for one in episode.usage if one.role == "proposer"]
    return sum(one.calls for one in used), sum(one.tokens_out for one in used)


@pytest.mark.slow
def test_they_play_by_name_and_pay_for_what_they_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agents = ("best-of-q", "adaptive", "repropose", "arbiter", "catts")
    told = [word for setting in SETTINGS for word in ("--set", setting)]
    playing = ("eval", "webshop", "--agents", ",".join(agents), "--tasks", "1", "--runs", "1", "--store", "s", *told)
    done = CliRunner().invoke(app, playing)
    assert done.exit_code == 0, done.output
    with Store.open(Path("s"), read_only=True) as store:
        played = {episode.agent: episode for episode in store.episodes(run="eval")}
        (kept,) = [run.config["agents"] for run in store.runs()]
    assert {len(step.decision.candidates) for step in played["adaptive"].steps} == {1}
    assert proposer(played["adaptive"])[0] == len(played["adaptive"].steps)
    assert proposer(played["repropose"])[0] == 2 * len(played["repropose"].steps)
    assert proposer(played["adaptive"])[1] < proposer(played["best-of-q"])[1] < proposer(played["repropose"])[1]
    assert isinstance(kept, dict)
    q = kept["best-of-q"]
    assert isinstance(q, dict)
    assert kept["adaptive"] == {**q, "adaptive": {"enough": -9}}
    assert kept["repropose"] == {**q, "adaptive": {"low": 9, "again": 1}}
    assert kept["catts"] == {**q, "catts": {"by": "entropy", "threshold": 0, "arbiter": "q"}}
    assert kept["arbiter"] == {"n": 3}
