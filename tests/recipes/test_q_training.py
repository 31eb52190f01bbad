"""A Q-function is used again only where settings and episodes are the same; else it is refused or trained again."""

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from scripted_shop import SMALL_RECIPE, Scripted, answering, shopper, small_recipe

from bestofq.cli.config import load_config
from bestofq.config.agents import make_agent
from bestofq.config.context import open_suite
from bestofq.config.models import Models, check_pictures
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.decision import Verdict
from bestofq.core.embedding import Context, EmbedItem, EmbedSettings, EmbedSpec
from bestofq.core.errors import ConfigError, DataError, InputError
from bestofq.core.language import Request
from bestofq.learning.checkpoint import CARD, read_card
from bestofq.learning.config import NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.models.cached_embedder import Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.embed import LocalEmbedder
from bestofq.recipes.best_of_q import best_of_q
from bestofq.recipes.collect import Play, collect
from bestofq.recipes.identity import DONE, UNFINISHED, is_done
from bestofq.recipes.q_training import embed_items, train_on_runs, train_q
from bestofq.reports.costs import agent_costs
from bestofq.reports.rows import Selection
from bestofq.rollouts.transitions import tabulate
from bestofq.store.store import Store
from bestofq_sites.webshop.settings import WebShopSettings
from experiments.learning_curve import dev_curve

SMALL = [
    *("model.dialect=composite", "suite.seed=12", "suite.train_tasks=4", "suite.step_limit=4", "seed_runs=1"),
    *("cycles=1", "runs_per_cycle=1", "iql.steps=6", "iql.batch_size=4", "iql.network.hidden=[8]"),
    "iql.precision=fp32",
]


tiny = pytest.fixture(scope="module", autouse=True)(lambda weights: SMALL.append(f"model.path={weights}"))


def models_with(*settings: str) -> Models:
    return Scripted(load_config(BestOfQSettings, None, (*SMALL, *settings)))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four episodes of the run seed, and the Q-function that they teach in `q`."""
    return tmp_path_factory.mktemp("collected")


@pytest.fixture
async def folder(collected: Path, tmp_path: Path) -> Path:
    if not (collected / "q").exists():
        models = models_with()
        async with open_suite(models) as suite:
            with Store.open(collected) as store:
                await collect(models, suite, store, "seed", Play("explore"))
                train_on_runs(models, store, ["seed"], collected / "q")
    return Path(shutil.copytree(collected, tmp_path / "store"))


def trained(folder: Path, settings: Sequence[str] = (), *, again: bool = False) -> None:
    """`q` is the Q-function's folder."""
    with Store.open(folder) as store:
        train_on_runs(models_with(*settings), store, ["seed"], folder / "q", again=again)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("iql.steps", "6", "7"),
        ("iql.network.hidden", "[8]", "[9]"),
        ("n_candidates", "3", "2"),
        ("model.embed.pooling", "mean", "last"),
    ],
)
async def test_another_setting_is_refused_by_name_with_both_values_and_trained_with_again(
    folder: Path, name: str, before: str, now: str
) -> None:
    kept = (folder / "q" / CARD).read_bytes()
    with pytest.raises(DataError) as caught:
        trained(folder, [f"{name}={now}"])
    for said in (name, before, now, "--out", "--again"):
        assert said in str(caught.value)
    assert (folder / "q" / CARD).read_bytes() == kept
    trained(folder, [f"{name}={now}"], again=True)
    assert (folder / "q" / CARD).read_bytes() != kept
    with pytest.raises(DataError, match=name):
        trained(folder)


async def test_the_same_settings_and_episodes_use_it_and_say_so(folder: Path, printed: Callable[[], str]) -> None:
    kept = (folder / "q" / CARD).read_bytes()
    trained(folder, ["iql.device=cpu", "iql.log_every=7", "iql.checkpoint_seconds=0", "epsilon=0.1"])
    assert str(folder / "q") in printed()
    assert (folder / "q" / CARD).read_bytes() == kept


async def test_a_run_that_is_named_twice_teaches_once(folder: Path) -> None:
    with Store.open(folder) as store:
        train_on_runs(models_with(), store, ["seed", "seed"], folder / "q")  # used as it is
        with pytest.raises(DataError, match="4 decided episodes, fewer than 5"):
            train_on_runs(models_with(), store, ["seed", "seed"], folder / "q", episodes=5)


async def test_learning_from_a_run_of_another_n_is_warned_of(folder: Path, printed: Callable[[], str]) -> None:
    trained(folder, ["n_candidates=2"], again=True)
    assert "add --set n_candidates=3\n" in printed()
    trained(folder, again=True)
    assert "n_candidates" not in printed()


async def test_learning_from_test_tasks_is_warned_of(folder: Path, printed: Callable[[], str]) -> None:
    with Store.open(folder) as store:
        [seed] = store.runs()
        await store.begin_run("eval", {"suite": {}, "split": "test"}, seed.provenance)
        await store.begin_run("imported", {"importer": "jsonl", "split": "test"}, seed.provenance)
        train_on_runs(models_with(), store, ["seed", "eval", "imported"], folder / "q")
    said = printed()
    assert "eval was played on test tasks" in said
    assert said.count("was played on") == 1


async def test_new_episodes_and_new_verdicts_are_noticed(folder: Path) -> None:
    with Store.open(folder) as store:
        one = next(store.episodes(run="seed"))
        new = await store.begin_episode("seed", "explore", one.task, 1, one.provenance)
        for step in one.steps:
            await store.append_step(new, step)
        await store.finish_episode(new, Verdict(outcome="unjudged", reward=0.0), None)
    trained(folder)  # an episode without a verdict teaches nothing

    async def judged(outcome: str) -> None:
        verdict = Verdict.model_validate({"outcome": outcome, "reward": float(outcome == "success"), "judge": "j"})
        with Store.open(folder) as store:
            await store.add_verdict(new, verdict, adopt=True)

    await judged("success")
    with pytest.raises(DataError, match=r"episodes\.count=4 \(now 5\)"):
        trained(folder)
    trained(folder, again=True)
    before = read_card(folder / "q").episodes
    await judged("failure")
    with pytest.raises(DataError, match=before.fingerprint):
        trained(folder)


async def test_improve_continues_with_more_cycles_and_refuses_other_settings(folder: Path, tmp_path: Path) -> None:
    async def improve(*settings: str) -> None:
        models = models_with(*settings)
        async with open_suite(models) as suite:
            with Store.open(folder) as store:
                await best_of_q(models, suite, store, tmp_path / "qs")

    await improve("cycles=0")
    first = (tmp_path / "qs" / "q0" / CARD).read_bytes()
    for changed, said in (
        ("iql.steps=7", r"iql\.steps=6 \(now 7\)"),
        ("suite.train_tasks=5", r"suite\.train_tasks=4 \(now 5\)"),
        ("seed_runs=2", r"seed_runs=1 \(now 2\)"),
    ):
        with pytest.raises(DataError, match=f"{said}.*--store and --out"):
            await improve(changed)
    await improve()
    assert (tmp_path / "qs" / "q0" / CARD).read_bytes() == first
    assert (tmp_path / "qs" / "q1" / DONE).exists()


async def test_an_unfinished_training_of_other_settings_is_refused_too(folder: Path) -> None:
    (folder / "q" / UNFINISHED).mkdir()
    (folder / "q" / DONE).unlink()
    for file in (folder / "q").glob("*.*"):
        if file.is_file() and file.name != "identity.json":
            file.rename(folder / "q" / UNFINISHED / file.name)
    with pytest.raises(DataError, match=r"iql\.steps=6 \(now 7\)"):
        trained(folder, ["iql.steps=7"])
    trained(folder, ["iql.steps=7"], again=True)
    assert not (folder / "q" / UNFINISHED).exists()


TASKS = 3


def in_some_order(request: Request) -> Sequence[str]:
    replies = shopper(request)
    return random.Random(request.seed).sample(replies, len(replies))


async def test_the_whole_recipe_and_its_resumption(tmp_path: Path, weights: str) -> None:
    models = small_recipe(weights, answering(in_some_order))
    async with open_suite(models) as suite:
        with Store.open(tmp_path / "store") as store:
            values = await best_of_q(models, suite, store, tmp_path / "q")
            assert values.train_n == SMALL_RECIPE.n_candidates
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
            await collect(models, suite, store, "test", Play("best-of-q", values=values, split="test", limit=2))
            episodes = list(store.episodes(run="test"))
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
    models = Models(
        SMALL_RECIPE.model_copy(update={"model": ModelSettings(path="pocket-agentq")})
    )  # asked in another format
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
    models = Models(SMALL_RECIPE)
    spec = models.with_embedding(
        models.embedder.spec.model_copy(update={"pooling": "last", "context": "review"})
    ).embedder.spec
    assert (spec.pooling, spec.context, spec.layer) == ("last", "review", -1)
    assert models.embedder.spec.pooling == "mean"


@pytest.mark.parametrize("context", ["alone", "review"])
async def test_training_embeds_nothing_that_acting_has_embedded(
    context: Context, tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same texts have the same keys, whether an agent embeds them or training reads them from the store."""
    embed = EmbedSettings(context=context)
    model = ModelSettings(path=weights, dialect="composite", embed=embed, precision="float32")
    models = Scripted(SMALL_RECIPE.model_copy(update={"model": model}))
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
    later, kept = Models(models.settings), set[str]()
    with Store.open(tmp_path) as store:
        for run, again in (("train", False), ("dev", True)):  # what is not trained on is not kept
            items, _ = tabulate(store.episodes(run=run), later.texts)
            embed_items(later, items, store, store.vectors(spec))
            new = {item.key for item in items} - kept if again else set()
            assert {item.key for item in computed} == new
            kept |= {item.key for item in items}


def test_learned_agents_need_a_q_function_and_it_needs_episodes(tmp_path: Path) -> None:
    models = Models(SMALL_RECIPE)
    with pytest.raises(ConfigError, match="--q"):
        make_agent("best-of-q", models)
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(DataError, match="there is no run 'nothing'"):
            train_on_runs(models, store, ["nothing"], tmp_path / "q")
        with pytest.raises(InputError, match="of 0 finished episodes none has both a step and an outcome"):
            train_q(tmp_path / "q", models, store, [])


def test_another_n_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    models = Models(SMALL_RECIPE)
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


@pytest.mark.parametrize("content", ["{", "[]"])
def test_an_identity_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "identity.json").write_text(content)
    with pytest.raises(DataError, match=r"identity.json cannot be read \(.*\): give another folder, or delete it"):
        is_done(tmp_path, {})
