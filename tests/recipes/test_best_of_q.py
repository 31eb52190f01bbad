"""The recipe, small, with the shipped pocket model: it runs, resumes, and refuses what does not fit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from bestofq.config.agents import make_agent
from bestofq.config.context import open_suite
from bestofq.config.models import Models, check_pictures
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.embedding import Context, EmbedItem, EmbedSettings, EmbedSpec
from bestofq.core.errors import ConfigError, InputError
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.models.cached_embedder import Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.embed import LocalEmbedder
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.collect import Play, collect, compare
from bestofq.recipes.q_training import embed_items, train_on_runs
from bestofq.reports.costs import agent_costs
from bestofq.reports.rows import Selection
from bestofq.reports.success import dev_curve
from bestofq.rollouts.transitions import tabulate
from bestofq.store.store import Store
from bestofq_sites.webshop.settings import WebShopSettings

TASKS = 4
SMALL = BestOfQSettings(
    suite=WebShopSettings(train_tasks=TASKS, step_limit=4),
    iql=IQLConfig(steps=10, network=NetworkConfig(hidden=(32,), project=None), batch_size=8, precision="fp32"),
    seed_runs=1,
    cycles=1,
    runs_per_cycle=1,
)


async def test_the_whole_recipe_and_its_resumption(tmp_path: Path) -> None:
    models = Models(SMALL)
    async with open_suite(models) as suite:
        with Store.open(tmp_path / "store") as store:
            values = await best_of_q(models, suite, store, tmp_path / "q")
            assert values.train_n == SMALL.n_candidates
            assert {run.name for run in store.runs()} == {"seed", "cycle-1"}
            first = {episode.id for episode in store.summaries()}
            assert len(first) == 2 * TASKS
            await best_of_q(models, suite, store, tmp_path / "q")
            assert {episode.id for episode in store.summaries()} == first
            (point,) = dev_curve(store)  # of the first Q-function, measured where it was put to use
            used = store.summaries(run="cycle-1")
            assert (point.episodes, point.success) == (TASKS, sum(e.success for e in used) / TASKS)
            same = train_on_runs(models, store, ["seed"], tmp_path / "q" / "q0")
            await collect(models, suite, store, "cycle-2", Play("best-of-q", values=same, limit=3))
            first_cycle, again = offered(store, "cycle-1"), offered(store, "cycle-2")  # the same tasks, the same Q
            assert all(first_cycle[task] != steps for task, steps in again.items())
            await compare(models, suite, store, "test", Play(values=values, split="test", limit=2))
            episodes = list(store.episodes(run="test", agent="best-of-q"))
    assert {episode.task.split for episode in episodes} == {"test"}
    for episode in episodes:
        for step in episode.steps:
            decision = step.decision
            assert decision.state_value is not None
            assert decision.scores[decision.chosen] == max(decision.scores)


def offered(store: Store, run: str) -> dict[str, list[list[str]]]:
    return {e.task.id: [[c.label for c in s.decision.candidates] for s in e.steps] for e in store.episodes(run=run)}


async def test_a_run_whose_episodes_all_end_without_a_valid_action_says_why_and_what_to_change(
    tmp_path: Path, printed: Callable[[], str]
) -> None:
    models = Models(SMALL.model_copy(update={"model": ModelSettings(path="pocket-agentq")}))  # asked in another format
    async with open_suite(models) as suite:
        with Store.open(tmp_path / "store") as store:
            done = await collect(models, suite, store, "eval", Play("prompting", limit=3))
            table = agent_costs(store, Selection(runs=["eval"]))
    (row,) = table.rows
    assert row.roles["proposer"].calls == sum(episode.steps + 1 for episode in done) >= 3
    said = printed()
    assert "3 of 3 episodes of prompting in eval" in said
    (replies,) = {e.verdict.replies[0][:20] for e in done[-1:] if e.verdict.replies}
    assert repr(replies)[1:-1] in said
    assert "--model pocket" in said


def test_models_read_as_a_q_function_does() -> None:
    models = Models(SMALL)
    spec = models.with_embedding(
        models.embedder.spec.model_copy(update={"pooling": "last", "context": "review"})
    ).embedder.spec
    assert (spec.pooling, spec.context, spec.layer) == ("last", "review", -1)
    assert models.embedder.spec.pooling == "mean"


@pytest.mark.parametrize("context", ["alone", "review"])
async def test_training_embeds_nothing_that_acting_has_embedded(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same texts have the same keys, whether an agent embeds them or training reads them from the store."""
    model = ModelSettings(embed=EmbedSettings(context=context), precision="float32")
    settings = SMALL.model_copy(update={"model": model})
    models = Models(settings)
    spec, small = models.embedder.spec, NetworkConfig(hidden=(8,), project=None)
    torch.manual_seed(0)
    values = ValueModel(QNetwork(spec.dim, small).eval(), VNetwork(spec.dim, small).eval(), embed=spec, train_n=3)
    async with open_suite(models) as suite:
        with Store.open(tmp_path) as store:
            splits = ("train", "dev")
            for split in splits:
                await collect(models, suite, store, split, Play("best-of-q", values=values, split=split, limit=1))
    computed: list[EmbedItem] = []
    compute = LocalEmbedder._compute

    def counting(self: LocalEmbedder, items: Sequence[EmbedItem]) -> list[Vector]:
        computed.extend(items)
        return compute(self, items)

    monkeypatch.setattr(LocalEmbedder, "_compute", counting)
    later = Models(settings)
    with Store.open(tmp_path) as store:
        for run, again in (("train", False), ("dev", True)):  # what is not trained on is not kept
            table = tabulate(store.episodes(run=run), later.texts)
            embed_items(later, table.items, store, store.vectors(spec))
            assert len(computed) == (len(table.items) if again else 0)


def test_learned_agents_need_a_q_function_and_it_needs_episodes(tmp_path: Path) -> None:
    models = Models(SMALL)
    with pytest.raises(ConfigError, match="--q"):
        make_agent("best-of-q", models)
    with Store.open(tmp_path / "store") as store, pytest.raises(InputError):
        train_on_runs(models, store, ["nothing"], tmp_path / "q")


def test_another_n_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    models = Models(SMALL)
    small = NetworkConfig(hidden=(8,), project=None)
    values = ValueModel(
        QNetwork(2, small), VNetwork(2, small), embed=EmbedSpec(model="m", revision="1", dim=2), train_n=3
    )
    assert make_agent("best-of-q", models, values, n=5).n_candidates == 5
    assert "N = 5" in caplog.text
    assert "N = 3" in caplog.text


CHAT = ChatConfig(model="vlm", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    "ways", [{"by": "point"}, {"by": "words", "localizer": "vision"}], ids=["points", "words found on pictures"]
)
async def test_pictures_that_are_needed_and_not_taken_are_said_before_the_run(ways: dict[str, str]) -> None:
    settings = BestOfQSettings.model_validate(
        {"endpoints": {"chat": CHAT}, "suite": WebShopSettings(screenshots=True), **ways}
    )
    with pytest.raises(ConfigError, match="none are taken"):
        async with open_suite(Models(settings)):
            pass
    check_pictures(settings, True)
