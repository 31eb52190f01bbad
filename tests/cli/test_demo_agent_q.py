"""`bestofq demo --agentq` from end to end, with a script that books tables in the model's place."""

import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest
from booking_guest import guest
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.options import CommonOptions
from bestofq.cli.shared import models_of
from bestofq.config.models import Models
from bestofq.core.errors import SetupError
from bestofq.core.protocols import LanguageModel
from bestofq.recipes.agent_q import SEARCH_RUN
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedModel
from bestofq_sites.demo import AFTER, BEFORE, RFT_RUN, SEARCHING, SEARCHING_SETTINGS, run_demo_agent_q

SEARCHES = (SEARCH_RUN, RFT_RUN)
SMALL = (
    *("agent_q.tasks=2", "agent_q.search.iterations=3", "agent_q.search.candidates=2"),
    *("agent_q.alpha=0.5", "agent_q.threshold=0.2", "agent_q.dpo.epochs=1"),
    "suite.step_limit=14",
    "suite.seed=12",  # of whose first two training tasks the script books one right, and RFT has what to learn
)


class Scripted(Models):
    """Weights to tune are a tiny model's; what is played is the script."""

    @cached_property
    def prompted(self) -> LanguageModel:
        return ScriptedModel(guest)


async def test_the_demo_plays_searches_learns_plays_again_and_goes_on_where_it_ended(
    tmp_path: Path, weights: str, printed: Callable[[], str]
) -> None:
    models = Scripted(models_of(CommonOptions(set_=list(SMALL), model=weights), *SEARCHING_SETTINGS).settings)
    out = tmp_path / "demo"
    await run_demo_agent_q(models, tasks=1, out=out, fresh=True, split="dev")
    with Store.open(out, read_only=True) as store:
        episodes = {run: store.summaries(run=run) for run in (BEFORE, AFTER, SEARCHING)}
        trees = [tree for run in SEARCHES for tree in store.trees.all(run)]
        shown = store.episode(episodes[BEFORE][0].id)
        searched = store.episode(episodes[SEARCHING][0].id)
    assert [len(found) for found in episodes.values()] == [1, 1, 1]
    assert {episode.agent for found in episodes.values() for episode in found} == {BEFORE, AFTER, SEARCHING}
    assert [tree.visits[0] for tree in trees] == [3, 3, 3, 3]
    assert len({tree.task.id for tree in trees}) == 4
    assert shown.steps[0].observation.screenshot is not None  # of a real Chromium
    assert searched.steps[0].decision.state_value is not None  # of a search
    assert (out / "policy" / "model" / "tokenizer.json").exists()
    assert len([*(out / "report" / "pages").glob("tree-*.html")]) == 4
    said = printed()
    assert said.count("agent-q + mcts") >= 1

    before = (out / "policy" / "model" / "model.safetensors").stat().st_mtime_ns
    await run_demo_agent_q(models, tasks=1, out=out, fresh=False, split="dev")
    with Store.open(out, read_only=True) as store:
        assert [e.id for e in store.summaries(run=SEARCHING)] == [e.id for e in episodes[SEARCHING]]
        assert [tree for run in SEARCHES for tree in store.trees.all(run)] == trees
    assert (out / "policy" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)  # as if it were not installed
    result = CliRunner().invoke(app, ["demo", "--agentq", "--model", "pocket", "--out", str(tmp_path / "demo")])
    assert isinstance(result.exception, SetupError)
    assert "pip install 'bestofq[agentq]'" in str(result.exception)
