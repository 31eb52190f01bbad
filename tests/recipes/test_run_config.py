"""A run goes on with what it was begun with, or says which setting is another now."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bestofq.cli.config import load_config
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.observation import Task
from bestofq.envs.webshop import suite as webshop
from bestofq.envs.webshop.reward import title_nouns
from bestofq.learning.networks import NetworkConfig, QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.models.local import POCKET
from bestofq.recipes.agent_q import searched_trees
from bestofq.recipes.best_of_q import Playing, begin
from bestofq.recipes.parts import Parts
from bestofq.recipes.provenance import current_provenance
from bestofq.recipes.run_config import Searcher, run_config
from bestofq.recipes.settings import AgentKind, BestOfQSettings
from bestofq.store.store import Store

CHAT = ("chat.model=m", "chat.base_url=http://127.0.0.1:1/v1")  # nothing is asked of it


def parts_with(*settings: str) -> Parts:
    return Parts(load_config(BestOfQSettings, None, settings))


async def go_on(folder: Path, before: tuple[str, ...], now: tuple[str, ...], searcher: Searcher | None) -> None:
    with Store.open(folder) as store:
        await begin(parts_with(*before), store, "r", "train", searcher=searcher)
        await begin(parts_with(*now), store, "r", "train", searcher=searcher)


@pytest.fixture(autouse=True)
def no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are compared without the spaCy pipeline that one of them names."""
    monkeypatch.setattr(webshop, "spacy_nouns", lambda pipeline: title_nouns)


@pytest.mark.parametrize(
    ("before", "now", "searcher", "said"),
    [
        (CHAT, (*CHAT, "agent_q.search.candidates=3"), "trees", "agent_q.search.candidates=4, and this has 3"),
        (CHAT, (*CHAT, "agent_q.search.candidates=3"), "mcts", "agent_q.search.candidates=4, and this has 3"),
        (
            (*CHAT, "agent_q.inference.iterations=8"),
            (*CHAT, "agent_q.inference.iterations=9"),
            "mcts",
            "agent_q.inference.iterations=8, and this has 9",
        ),
        ((*CHAT, 'agent_q.feedback="none"'), CHAT, "trees", 'agent_q.feedback="none", and this has model'),
        (
            (*CHAT, "agent_q.search.stop_at_success=true"),
            CHAT,
            "trees",
            "agent_q.search.stop_at_success=true, and this has false",
        ),
        (("epsilon=0.25",), (), None, "epsilon=0.25, and this has 0.5"),
        (("suite.search_fields=upstream",), (), None, "suite.search_fields=upstream, and this has all"),
        (("suite.spacy=en_core_web_lg",), (), None, "suite.spacy=en_core_web_lg, and this has none"),
        (("suite.step_limit=7",), (), None, "suite.step_limit=7, and this has 15"),
        ((*CHAT, "chat_screenshots=0"), CHAT, None, "chat_screenshots=0, and this has 1"),
        (
            ("judge.model=m", "judge_screenshots=2"),
            ("judge.model=m", "judge_screenshots=1"),
            None,
            "judge_screenshots=2, and this has 1",
        ),
        (("picker_chat.model=m",), ("picker_chat.model=other",), None, "picker_chat.model=m, and this has other"),
    ],
)
async def test_another_setting_is_named_with_both_values_and_the_way_back(
    before: tuple[str, ...], now: tuple[str, ...], searcher: Searcher | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=re.escape(f"run 'r' was begun with {said}: go on with --set ")) as caught:
        await go_on(tmp_path, before, now, searcher)
    back = re.findall(r"--set (\S+), or", str(caught.value))
    await go_on(tmp_path, before, (*now, *shlex.split(*back)), searcher)


@pytest.mark.parametrize(
    ("now", "searcher"),
    [
        ((*CHAT, "agent_q.search.iterations=99", "agent_q.search.seconds=5"), "trees"),  # it may search further
        ((*CHAT, "agent_q.search.candidates=3"), None),  # nothing searches
        ((*CHAT, "agent_q.alpha=0.1", "agent_q.threshold=0.9", "agent_q.dpo.lr=1", "agent_q.tasks=5"), "trees"),
    ],
)
async def test_what_a_run_does_not_depend_on_may_change(
    now: tuple[str, ...], searcher: Searcher | None, tmp_path: Path
) -> None:
    await go_on(tmp_path, CHAT, now, searcher)


async def test_a_setting_that_was_not_there_and_another_split_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run 'r' was begun without chat\.model, and this has m: leave it out"):
        await go_on(tmp_path / "without", (), CHAT, None)
    with pytest.raises(DataError, match=r"with chat\.model=m, and this has none: go on with --set chat\.model=m, or"):
        await go_on(tmp_path / "with", CHAT, (), None)
    with (
        Store.open(tmp_path / "without") as store,
        pytest.raises(DataError, match="begun on the split train, and this is dev: give --split train"),
    ):
        await begin(parts_with(), store, "r", "dev")


async def test_a_run_of_a_store_that_kept_no_searches_goes_on_and_keeps_them_from_then_on(tmp_path: Path) -> None:
    parts: Any = parts_with(*CHAT)
    with Store.open(tmp_path) as store:
        made = await begin(parts, store, "other", "train")
        await store.begin_run("r", run_config(parts, "train"), made)  # as it was written before
        await begin(parts, store, "r", "train", searcher="trees")
        with pytest.raises(DataError, match=r"agent_q\.search\.depth=30, and this has 9"):
            await begin(parts_with(*CHAT, "agent_q.search.depth=9"), store, "r", "train", searcher="trees")


def played(kind: AgentKind, n: int | None = None) -> Playing:
    return Playing(kind, kind, n)


@pytest.mark.parametrize(
    ("agent", "before", "said"),
    [
        (played("beam"), "model.beams=3", "model.beams=3, and this has 4"),
        (played("prior"), "beta=0.5", "beta=0.5, and this has 0.1"),
    ],
)
async def test_what_an_agent_alone_depends_on_is_held_for_it(
    agent: Playing, before: str, said: str, tmp_path: Path
) -> None:
    with Store.open(tmp_path) as store:
        await begin(parts_with(before), store, "r", "train", agent=agent)
        await begin(parts_with(before), store, "r", "train", agent=agent)
        await begin(parts_with(), store, "r", "train", agent=played("best-of-q"))  # which has no such setting
        with pytest.raises(DataError, match=re.escape(f"run 'r' was begun with {said}: go on with --set {before}, or")):
            await begin(parts_with(), store, "r", "train", agent=agent)


async def test_an_agents_n_is_held_for_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await begin(parts_with(), store, "r", "train", agent=played("best-of-q", 5))
        await begin(parts_with(), store, "r", "train", agent=played("random"))
        with pytest.raises(
            DataError, match=r"agent best-of-q of the run 'r' was begun with N = 5 .* 3: go on with --n 5"
        ):
            await begin(parts_with(), store, "r", "train", agent=played("best-of-q"))


def q_function(name: str, discount: float | None = None) -> ValueModel:
    shape = NetworkConfig(hidden=(2,))
    embed = EmbedSpec(model="m", revision="1", dim=2)
    return ValueModel(
        QNetwork(2, shape), VNetwork(2, shape), embed=embed, train_n=3, checkpoint=name, discount=discount
    )


@pytest.mark.parametrize(
    ("who", "kept"),
    [
        ("best-of-q", {"agent": played("best-of-q")}),
        ("mcts", {"agent": played("mcts"), "searcher": "mcts"}),
        ("trees", {"searcher": "trees"}),
    ],
)
async def test_a_run_goes_on_with_the_q_function_it_began_with(who: str, kept: dict[str, Any], tmp_path: Path) -> None:
    parts = parts_with(*CHAT)
    with Store.open(tmp_path) as store:
        await begin(parts, store, "r", "train", **kept, values=q_function("value-1"))
        await begin(parts, store, "r", "train", **kept, values=q_function("value-1"))
        with pytest.raises(
            DataError, match=f"{who} of the run 'r' began with the Q-function value-1, .* value-2: give --q the folder"
        ):
            await begin(parts, store, "r", "train", **kept, values=q_function("value-2"))


async def test_a_run_keeps_the_discount_that_a_q_function_was_trained_with(tmp_path: Path) -> None:
    parts, who = parts_with(*CHAT), played("best-of-q")
    with Store.open(tmp_path) as store:
        await begin(parts, store, "r", "train", agent=who, values=q_function("value-1"))  # as it was kept before
        await begin(parts, store, "r", "train", agent=who, values=q_function("value-1", 0.9))
        assert store.runs()[0].config["agents"] == {"best-of-q": {"n": 3, "q": "value-1", "discount": 0.9}}
        with pytest.raises(DataError, match="began with the Q-function value-1, and this is value-2"):
            await begin(parts, store, "r", "train", agent=who, values=q_function("value-2", 0.99))
        with pytest.raises(DataError, match=r"began with a Q-function trained with discount 0\.9, and this is 0\.99"):
            await begin(parts, store, "r", "train", agent=who, values=q_function("value-1", 0.99))


async def test_a_run_that_kept_no_settings_of_agents_goes_on_by_default_and_keeps_them_from_then_on(
    tmp_path: Path,
) -> None:
    parts, other = parts_with(), parts_with("beta=0.5")
    task = Task(id="t", suite="webshop", goal="g", start_url="http://shop.test/")
    with Store.open(tmp_path) as store:
        for run in ("old", "empty"):
            made = await begin(parts, store, run, "train")  # as it was written before
        await store.begin_episode("old", "prior", task, 0, made)
        await begin(other, store, "empty", "train", agent=played("prior"))
        with pytest.raises(
            DataError, match=r"'old' does not say with which beta .* so 0\.1 is taken, and this has 0\.5"
        ):
            await begin(other, store, "old", "train", agent=played("prior"))
        await begin(parts, store, "old", "train", agent=played("prior"))
        with pytest.raises(DataError, match=r"beta=0\.1, and this has 0\.5"):
            await begin(other, store, "old", "train", agent=played("prior"))


async def test_trees_are_learned_from_with_the_prompts_that_grew_them_only(tmp_path: Path) -> None:
    """Else a composite reply would be joined to another history than it followed."""
    parts = parts_with("model.dialect=composite", "model.path=pocket-agentq")
    with Store.open(tmp_path) as store:
        await begin(parts, store, "r", "train", searcher="trees")
        with pytest.raises(
            DataError, match=r"model\.dialect=composite, and this has commands: go on with --set model\."
        ):
            searched_trees(parts_with("model.path=pocket-agentq"), store, "r")
        older = current_provenance(prompts="0123456789ab", seed=0)
        await store.begin_run("old", run_config(parts, "train"), older)
        with pytest.raises(
            DataError, match="the run 'old' were grown with prompts 01234567, and those of this bestofq"
        ):
            searched_trees(parts, store, "old")


async def test_trees_are_learned_from_by_the_weights_that_grew_them_only(tmp_path: Path) -> None:
    """The same name, another model."""
    model = tmp_path / "model"
    model.symlink_to(POCKET)
    with Store.open(tmp_path / "store") as store:
        await begin(parts_with(f"model.path={model}"), store, "r", "train", searcher="trees")
        model.unlink()
        model.symlink_to(POCKET.parent / "pocket_web")
        again = parts_with(f"model.path={model}")
        with pytest.raises(DataError, match=r"grown by a model of revision \w+, and \S+ is of \w+: give --model"):
            await begin(again, store, "r", "train", searcher="trees")
        with pytest.raises(DataError, match="grown by a model of revision"):
            searched_trees(again, store, "r")
