"""Stored episodes judged afterwards."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Answer
from bestofq.core.decision import Candidate, Decision, Episode, Outcome, Provenance, Step, Verdict
from bestofq.core.errors import InputError, ModelError
from bestofq.core.observation import Observation, Screenshot, Task
from bestofq.core.protocols import Judge
from bestofq.recipes.judging import Which, episodes_to_judge, judge_run
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedJudge

MODELS = Models(BestOfQSettings())
OPEN = Verdict(reward=0.0, outcome="unjudged")
WON = Verdict(reward=1.0, outcome="success")
LOST = Verdict(reward=0.0, outcome="failure", reason="ran out of its 30 steps")


async def put(store: Store, name: str, verdict: Verdict, run: str = "r", *, steps: int = 1) -> str:
    data = name.encode()
    shot = Screenshot(sha256=hashlib.sha256(data).hexdigest(), media_type="image/jpeg", width=8, height=8, data=data)
    page = Observation(url="http://a/", title=name, text="", elements=(), screenshot=shot)
    answer = Candidate(action=Answer(text=name), label=f'answer "{name}"')
    decision = Decision(candidates=(answer,), scores=(0.0,), chosen=0)
    task = Task(id=name, suite="s", goal="g", start_url="http://a/")
    episode = await store.begin_episode(run, "walker", task, 0, Provenance(version="test"))
    for index in range(steps):
        await store.append_step(episode, Step(index=index, observation=page, decision=decision, terminated=True))
    await store.finish_episode(episode, verdict, page)
    return episode


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with Store.open(tmp_path) as opened:
        for run in ("r", "shop"):
            await opened.begin_run(run, {}, Provenance(version="test"))
        yield opened


def says(outcome: Outcome, name: str = "scripted") -> ScriptedJudge:
    def outcomes(episode: Episode) -> Outcome:
        assert episode.final.screenshot.data == episode.task.id.encode()  # the picture's bytes are there
        return outcome

    return ScriptedJudge(outcomes, name=name)


def outcomes(store: Store, run: str = "r") -> dict[str, Outcome | None]:
    return {summary.key.task: summary.outcome for summary in store.summaries(run=run)}


async def judged(
    store: Store, run: str, judge: Judge, *, which: Which = "open", limit: int | None = None, concurrency: int = 16
) -> Counter[Outcome]:
    """What `bestofq judge` does."""
    todo = episodes_to_judge(store, run, judge, which=which)[:limit]
    return await judge_run(MODELS, store, todo, lambda _: judge, adopt=which != "extra", concurrency=concurrency)


async def test_what_nobody_judged_is_judged_once(store: Store) -> None:
    for name, verdict in (("a", OPEN), ("b", OPEN), ("c", LOST)):
        await put(store, name, verdict)
    assert await judged(store, "r", says("unparseable"), limit=1) == {"unparseable": 1}
    assert await judged(store, "r", says("blocked")) == {"blocked": 2}  # what no verdict could be read of, again
    assert outcomes(store) == {"a": "blocked", "b": "blocked", "c": "failure"}
    assert await judged(store, "r", says("success")) == {}
    assert await judged(store, "r", says("success", "another"), which="all") == {"success": 2}
    assert outcomes(store) == {"a": "success", "b": "success", "c": "failure"}
    assert store.verdicts().keys() == {"scripted", "another"}


async def test_verdicts_beside_the_environments(store: Store) -> None:
    for name, verdict in (("a", WON), ("b", WON), ("c", LOST)):
        await put(store, name, verdict, "shop")
    with pytest.raises(InputError, match="--against-env"):
        await judged(store, "shop", says("failure"))
    assert await judged(store, "shop", says("failure"), which="extra", limit=1) == {"failure": 1}
    assert await judged(store, "shop", says("failure"), which="extra") == {"failure": 1}
    assert await judged(store, "shop", says("failure"), which="extra") == {}
    assert await judged(store, "shop", says("success", "another"), which="extra") == {"success": 2}
    assert outcomes(store, "shop") == {"a": "success", "b": "success", "c": "failure"}


async def test_an_episode_without_a_step_is_not_judged(store: Store) -> None:
    await put(store, "empty", OPEN, steps=0)
    with pytest.raises(InputError, match="with a step is a judge's"):
        await judged(store, "r", says("success"))
    await put(store, "a", OPEN)
    assert await judged(store, "r", says("success")) == {"success": 1}
    assert outcomes(store) == {"empty": "unjudged", "a": "success"}


async def test_what_was_judged_stays_when_the_judge_goes_away(store: Store) -> None:
    for name in "abc":
        await put(store, name, OPEN)

    def away(episode: Episode) -> Outcome:
        if episode.task.id == "b":
            raise ModelError("no reply")
        return "success"

    with pytest.raises(ModelError, match="no reply"):
        await judged(store, "r", ScriptedJudge(away), concurrency=1)
    assert outcomes(store) == {"a": "success", "b": "unjudged", "c": "unjudged"}


async def test_a_judge_is_not_measured_against_a_judge(store: Store) -> None:
    await put(store, "a", OPEN)
    with pytest.raises(InputError, match="no run 'q' in the store: it has r, shop"):
        await judged(store, "q", says("success"))
    with pytest.raises(InputError, match="none ended by itself"):
        await judged(store, "r", says("success"), which="extra")
