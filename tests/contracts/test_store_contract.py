"""What a store promises, in a folder or behind a database's URL."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bestofq.core.decision import Decision, Provenance, Step, Verdict
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.store.store import Store
from bestofq.testing.contracts import CANDIDATES, PAGE, STATE

SOURCE = Provenance(version="test")
STEP = Step(index=0, observation=PAGE, decision=Decision(candidates=CANDIDATES, scores=(0, 1, 2), chosen=2))
WON = Verdict(reward=1.0, outcome="success")
SPEC = EmbedSpec(model="m", revision="1", dim=2)


@pytest.fixture(params=["folder", "url"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    if request.param == "folder":
        return lambda: Store.open(tmp_path)
    return lambda: Store.open(f"sqlite:///{tmp_path}/episodes.sqlite", files=tmp_path / "files")


async def put(store: Store, repeat: int = 0) -> str:
    await store.begin_run("r", {}, SOURCE)
    episode = await store.begin_episode("r", "a", STATE.task, repeat, SOURCE)
    await store.append_step(episode, STEP)
    await store.finish_episode(episode, WON, PAGE)
    return episode


async def test_what_was_committed_is_read_back_whole(opened: Callable[[], Store]) -> None:
    with opened() as store:
        episode = await put(store)
    with opened() as store:
        (found,) = store.episodes(run="r")
        assert found.id == episode
        assert (found.task, found.steps, found.final, found.verdict) == (STATE.task, (STEP,), PAGE, WON)


async def test_a_task_is_finished_once_a_repeat(opened: Callable[[], Store]) -> None:
    with opened() as store:
        await put(store)
        await put(store, repeat=1)
        with pytest.raises(DataError):
            await put(store)
        assert len(store.summaries(run="r", status="finished")) == 2


async def test_a_run_is_not_continued_with_other_settings(opened: Callable[[], Store]) -> None:
    with opened() as store:
        await store.begin_run("r", {"seed": 0}, SOURCE)
        await store.begin_run("r", {"seed": 0}, SOURCE)
        with pytest.raises(DataError, match="seed"):
            await store.begin_run("r", {"seed": 1}, SOURCE)


def test_vectors_are_kept_by_their_spec(opened: Callable[[], Store]) -> None:
    with opened() as store:
        store.vectors(SPEC).put_many({"k": np.array([1, 2], dtype=np.float32)})
    with opened() as store:
        assert store.vectors(SPEC).get_many(["k", "other"])["k"].tolist() == [1, 2]
        assert not store.vectors(SPEC.model_copy(update={"layer": 3})).get_many(["k"])
