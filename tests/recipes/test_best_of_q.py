"""The recipe, small, with the shipped pocket model: it runs, resumes, and refuses what does not fit."""

import contextlib
from pathlib import Path

import pytest
from rich.console import Console

from bestofq.core.errors import CheckpointError, ConfigError, DataError, InputError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env
from bestofq.learning.iql import IQLConfig
from bestofq.learning.networks import NetworkConfig
from bestofq.models.chat import ChatConfig
from bestofq.recipes.benchmark import compare
from bestofq.recipes.best_of_q import best_of_q, collect, train
from bestofq.recipes.parts import Parts
from bestofq.recipes.ranking import by_kind, oracle_steps
from bestofq.recipes.settings import BestOfQSettings, ModelSettings, SuiteSettings
from bestofq.recipes.worlds import World, open_world
from bestofq.reports.curve import dev_curve
from bestofq.store.store import Store

SMALL = BestOfQSettings(
    suite=SuiteSettings(train_tasks=8, concurrency=16),
    iql=IQLConfig(steps=10, network=NetworkConfig(hidden=(32,), project=None), batch_size=8, precision="fp32"),
    seed_runs=1,
    cycles=1,
    runs_per_cycle=1,
)


@pytest.fixture
def console() -> Console:
    return Console(quiet=True)


async def test_the_whole_recipe_and_its_resumption(tmp_path: Path, console: Console) -> None:
    parts = Parts(SMALL)
    async with open_world(parts) as world:
        with Store.open(tmp_path / "store") as store:
            values = await best_of_q(parts, world, store, tmp_path / "q", console)
            assert values.train_n == SMALL.n_candidates
            assert {run.name for run in store.runs()} == {"seed", "cycle-1"}
            first = {episode.id for episode in store.summaries()}
            assert len(first) == 16
            await best_of_q(parts, world, store, tmp_path / "q", console)
            assert {episode.id for episode in store.summaries()} == first
            (point,) = dev_curve(store)  # of the first Q-function, measured where it was put to use
            used = store.summaries(run="cycle-1")
            assert (point.episodes, point.success) == (8, sum(e.success for e in used) / 8)
            await compare(parts, world, store, "test", console, values=values, split="test", tasks=4, runs=1)
            episodes = list(store.episodes(run="test", agent="best-of-q"))
    assert {episode.task.split for episode in episodes} == {"test"}
    for episode in episodes:
        for step in episode.steps:
            decision = step.decision
            assert decision.state_value is not None
            assert decision.scores[decision.chosen] == max(decision.scores)
    rows = by_kind(oracle_steps(parts, episodes))
    assert rows["all"].steps == sum(len(episode.steps) for episode in episodes)


def test_parts_read_as_a_q_function_does() -> None:
    parts = Parts(SMALL)
    spec = parts.reading(parts.embedder.spec.model_copy(update={"pooling": "last", "context": "state"})).embedder.spec
    assert (spec.pooling, spec.context, spec.layer) == ("last", "state", -1)
    assert parts.embedder.spec.pooling == "mean"


def test_learned_agents_need_a_q_function_and_it_needs_episodes(tmp_path: Path, console: Console) -> None:
    parts = Parts(SMALL)
    with pytest.raises(ConfigError, match="--q"):
        parts.agent("best-of-q")
    with Store.open(tmp_path / "store") as store, pytest.raises(InputError):
        train(parts, store, ["nothing"], tmp_path / "q", console)


async def test_another_n_warns_and_another_embedding_is_refused_by_name(
    tmp_path: Path, console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(SMALL)
    async with open_world(parts) as world:
        with Store.open(tmp_path / "store") as store:
            values = await best_of_q(
                Parts(SMALL.model_copy(update={"cycles": 0})), world, store, tmp_path / "q", console
            )
            agent = parts.agent("best-of-q", values, n=5)
            assert agent.n_candidates == 5
            assert "N = 5" in caplog.text
            assert "N = 3" in caplog.text
            other = Parts(SMALL.model_copy(update={"model": ModelSettings(embed_layer=2)}))
            with pytest.raises(CheckpointError, match="layer"):
                train(other, store, ["seed"], tmp_path / "q" / "q0", console)


CHAT = ChatConfig(model="vlm", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    "ways", [{"by": "point"}, {"by": "words", "localizer": "vision"}], ids=["points", "words found on pictures"]
)
async def test_pictures_that_are_needed_and_not_taken_are_said_before_the_run(ways: dict[str, str]) -> None:
    settings = BestOfQSettings.model_validate({"chat": CHAT, "suite": SuiteSettings(screenshots=True), **ways})
    with pytest.raises(ConfigError, match="none are taken"):
        async with open_world(Parts(settings)):
            pass
    Parts(settings).check_pictures(True)


@pytest.mark.parametrize("other", [{"by": "words", "localizer": "page"}, {"chat_screenshots": 2}], ids=str)
async def test_a_run_refuses_to_go_on_with_elements_or_pictures_shown_otherwise(
    other: dict[str, object], tmp_path: Path, console: Console
) -> None:
    async def no_tasks(split: Split, limit: int | None) -> list[Task]:
        return []

    async def no_env() -> Env:
        raise AssertionError("there is no task")

    idle, one = World(no_env, no_tasks), SMALL.model_copy(update={"chat": CHAT})
    with Store.open(tmp_path) as store:
        for settings, again in ((one, False), (one, False), (one.model_copy(update=other), True)):
            with pytest.raises(DataError, match="was begun with") if again else contextlib.nullcontext():
                await collect(Parts(settings), idle, store, "seed", "prompting", console, repeats=1)
