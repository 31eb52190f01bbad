"""`bestofq demo` from end to end, small: before, learning, after, and in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bestofq.cli.options import CommonOptions
from bestofq.cli.shared import models_of
from bestofq.store.store import Store
from bestofq_sites import demo
from bestofq_sites.demo import EXPLORED, HELD_OUT, LEARNING, RANKED, WATCHED, run_demo

SMALL = (
    *("suite.sites=1", "suite.tasks_per_site=12", "suite.quirky=0"),  # ordinary: the model succeeds
    *("suite.train_tasks=2", "model.samples_per_candidate=1", "iql.steps=5", "iql.network.hidden=[16]"),
)


async def test_it_plays_learns_plays_again_and_shows_some_in_chromium(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[[], str]
) -> None:
    monkeypatch.setattr(demo, "IN_CHROMIUM", 1)
    out = tmp_path / "demo"
    models = models_of(CommonOptions(set_=list(SMALL)), *LEARNING)
    await run_demo(models, tasks=1, out=out, fresh=True)
    with Store.open(out, read_only=True) as store:
        agents = {run: {s.agent for s in store.summaries(run=run)} for run in (HELD_OUT, EXPLORED, WATCHED)}
        shown = next(store.episodes(run=WATCHED, agent=RANKED))
        ranked = {s.agent for s in store.summaries(run=HELD_OUT) if s.checkpoint}
    assert agents == {HELD_OUT: {"prompting", "random", RANKED}, EXPLORED: {"explore"}, WATCHED: {"prompting", RANKED}}
    assert ranked == {RANKED}
    assert shown.steps[0].observation.screenshot is not None
    assert (out / "report" / "index.html").exists()
    text = printed()
    assert "http://127.0.0.1:" in text
    assert "more than chance" in text
