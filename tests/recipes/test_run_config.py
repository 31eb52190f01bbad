"""A run goes on with what it was begun with, or says which setting is another now."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from bestofq.cli.config import load_config
from bestofq.config.context import OpenSuite, step_limit_of
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.core.identity import Endpoint, flat
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env
from bestofq.learning.config import NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.recipes.collect import Play, begin
from bestofq.recipes.policy_training import searched_trees
from bestofq.store.store import Store
from bestofq_sites.shipped import POCKET, POCKET_WEB

CHAT = ("endpoints.chat.model=m", "endpoints.chat.base_url=http://127.0.0.1:1/v1")  # nothing is asked of it


def models_with(*settings: str) -> Models:
    return Models(load_config(BestOfQSettings, None, settings))


def context_with(store: Store, *settings: str) -> tuple[Models, OpenSuite, Store]:
    """Of a suite in which nothing is played."""
    models = models_with(*settings)
    suite = OpenSuite(no_env, no_tasks, step_limit=step_limit_of(models.settings))
    return models, suite, store


async def no_env() -> Env:
    raise AssertionError("nothing is played")


async def no_tasks(split: Split, limit: int | None) -> list[Task]:
    return []


async def plays_one(store: Store, agent: str) -> None:
    """An episode of the agent in the run `r` has begun."""
    task = Task(id="t", suite="s", goal="g", start_url="u")
    await store.begin_episode("r", agent, task, 0, Provenance(version="test"))


async def begins(store: Store, *settings: str, play: Play | None, values: ValueModel | None = None) -> Provenance:
    """The run `r`, with these settings."""
    return await begin(*context_with(store, *settings), "r", "train", play=play, values=values)


PLAYS = {None: Play("prompting"), "trees": None, "mcts": Play("mcts")}


async def go_on(folder: Path, before: tuple[str, ...], now: tuple[str, ...], searcher: str | None) -> None:
    with Store.open(folder) as store:
        for settings in (before, now):
            made = await begins(store, *settings, play=PLAYS[searcher])
            if searcher == "mcts":  # an agent that has not played may change
                await store.begin_episode("r", "mcts", Task(id="t", suite="s", goal="g", start_url="/"), 0, made)


JUDGE, PICKER = "endpoints.judge.model=m", "endpoints.picker_chat.model="


@pytest.mark.parametrize(
    ("searcher", "both", "before", "now", "said"),
    [
        ("trees", CHAT, "", "agent_q.search.candidates=3", "agent_q.search.candidates=4, and this has 3"),
        ("mcts", CHAT, "", "agent_q.search.candidates=3", "agent_q.search.candidates=4, and this has 3"),
        ("mcts", CHAT, "agent_q.search.iterations=8", "agent_q.search.iterations=9", "9"),
        ("trees", CHAT, "agent_q.feedback=none", "", 'agent_q.feedback="none", and this has model'),
        ("trees", CHAT, "agent_q.search.stop_at_success=true", "", "false"),
        (None, (), "epsilon=0.25", "", "0.5"),
        (None, (), "suite.search_fields=upstream", "", "all"),
        (None, (), "suite.step_limit=7", "", "15"),
        (None, CHAT, "chat_screenshots=0", "", "1"),
        (None, (*CHAT, "localizer=vision"), "by=words", "", "mark"),
        (None, (JUDGE,), "judge_screenshots=2", "judge_screenshots=1", "1"),
        (None, (JUDGE,), "judge_criteria=opentable", "", "none"),
        (None, (), "localizer=vision", "", "none"),
        (None, (), f"{PICKER}m", f"{PICKER}other", "picker_chat.model=m, and this has other"),
    ],
)
async def test_another_setting_is_named_with_both_values_and_the_way_back(
    searcher: str | None, both: tuple[str, ...], before: str, now: str, said: str, tmp_path: Path
) -> None:
    """`said`: the value now, or all of it if the setting of the run has another name."""
    first, later = ((*both, *filter(None, [setting])) for setting in (before, now))
    told = said if " " in said else f"{before}, and this has {said}"
    with pytest.raises(DataError, match=re.escape(f"run 'r' was begun with {told}: continue with --set ")) as caught:
        await go_on(tmp_path, first, later, searcher)
    back = re.findall(r"--set (\S+), or", str(caught.value))
    await go_on(tmp_path, first, (*later, *shlex.split(*back)), searcher)


@pytest.mark.parametrize(
    ("now", "searcher"),
    [
        ((*CHAT, "agent_q.search.iterations=99"), "trees"),  # it may search further
        ((*CHAT, "agent_q.search.candidates=3"), None),  # nothing searches
        ((*CHAT, "agent_q.alpha=0.1", "agent_q.threshold=0.9", "agent_q.dpo.lr=1", "agent_q.tasks=5"), "trees"),
    ],
)
async def test_what_a_run_does_not_need_may_change(now: tuple[str, ...], searcher: str | None, tmp_path: Path) -> None:
    await go_on(tmp_path, CHAT, now, searcher)


async def test_a_setting_that_was_not_there_and_another_split_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run 'r' was begun without chat\.model, and this has m: leave it out"):
        await go_on(tmp_path / "without", (), CHAT, None)
    with pytest.raises(
        DataError, match=r"with chat\.model=m, and this has none: continue with --set endpoints\.chat\.model=m"
    ):
        await go_on(tmp_path / "with", CHAT, (), None)
    with (
        Store.open(tmp_path / "without") as store,
        pytest.raises(DataError, match="begun with split=train, and this has dev: continue with --split train"),
    ):
        await begin(*context_with(store), "r", "dev", play=PLAYS[None])


async def test_what_an_agent_alone_depends_on_is_held_for_it_once_it_has_played(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await begins(store, "beta=0.2", play=Play("prior"))
        await plays_one(store, "random")
        for _ in range(2):
            await begins(store, "beta=0.5", play=Play("prior"))
        await plays_one(store, "prior")
        await begins(store, play=Play("best-of-q"))  # which has no such setting
        said = "prior in run 'r' was begun with beta=0.5, and this has 0.1: continue with --set beta=0.5, or"
        with pytest.raises(DataError, match=re.escape(said)):
            await begins(store, play=Play("prior"))


async def test_an_agents_n_is_held_for_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await begins(store, play=Play("best-of-q", n=5))
        await plays_one(store, "best-of-q")
        await begins(store, play=Play("random"))
        with pytest.raises(DataError, match=r"best-of-q in run 'r' was begun with n=5, .* 3: continue with --n 5"):
            await begins(store, play=Play("best-of-q"))


def q_function(name: str, discount: float | None = None) -> ValueModel:
    shape = NetworkConfig(hidden=(2,))
    embed = EmbedSpec(model="m", revision="1", dim=2)
    return ValueModel(
        QNetwork(2, shape), VNetwork(2, shape), embed=embed, train_n=3, checkpoint=name, discount=discount
    )


@pytest.mark.parametrize(
    ("who", "play"), [("best-of-q", Play("best-of-q")), ("mcts", Play("mcts")), ("trees", None)], ids=str
)
async def test_a_run_goes_on_with_the_q_function_it_began_with(who: str, play: Play | None, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for _ in range(2):
            await begins(store, *CHAT, play=play, values=q_function("value-1", 0.9))
        await plays_one(store, who)
        with pytest.raises(
            DataError, match=f"{who} in run .r. was begun with q=value-1, .* value-2: continue with --q"
        ):
            await begins(store, *CHAT, play=play, values=q_function("value-2", 0.99))


async def test_a_run_keeps_the_discount_that_a_q_function_was_trained_with(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        who = Play("best-of-q")
        await begins(store, *CHAT, play=who, values=q_function("value-1", 0.9))
        assert store.runs()[0].config["agents"] == {"best-of-q": {"n": 3, "q": "value-1", "discount": 0.9}}
        await plays_one(store, "best-of-q")
        with pytest.raises(DataError, match=r"begun with discount=0\.9, and this has 0\.99"):
            await begins(store, *CHAT, play=who, values=q_function("value-1", 0.99))


async def test_what_a_run_keeps_are_the_settings_under_their_own_names(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        context = context_with(store, *CHAT)
        await begin(*context, "r", "train", play=Play("prompting"))
        config = store.runs()[0].config
    settings = {name.removeprefix("endpoints.") for name in flat(context[0].settings.model_dump(mode="json"))}
    assert flat(config).keys() <= {*settings, *get_args(Endpoint), "split"}


async def test_trees_are_learned_from_with_the_prompts_that_grew_them_only(tmp_path: Path) -> None:
    """Else a composite reply would be joined to another history than it followed."""
    with Store.open(tmp_path) as store:
        context = context_with(store, "model.dialect=composite", "model.path=pocket-agentq")
        made = await begin(*context, "r", "train")
        with pytest.raises(
            DataError, match=r"model\.dialect=composite, and this has commands: continue with --set model\."
        ):
            searched_trees(models_with("model.path=pocket-agentq"), store, "r")
        config = {name: value for name, value in store.runs()[0].config.items() if name != "agents"}
        await store.begin_run("other", config, made, agents={"trees": {"prompts": "0123456789ab"}})
        now = re.escape(context[0].prompts)
        with pytest.raises(DataError, match=f"run 'other' was begun with prompts=0123456789ab, and this has {now}"):
            searched_trees(context[0], store, "other")


async def test_trees_are_learned_from_by_the_weights_that_grew_them_only(tmp_path: Path) -> None:
    """The same name, another model."""
    model = tmp_path / "model"
    model.symlink_to(POCKET)
    with Store.open(tmp_path / "store") as store:
        await begin(*context_with(store, f"model.path={model}"), "r", "train")
        model.unlink()
        model.symlink_to(POCKET_WEB)
        again = context_with(store, f"model.path={model}")
        with pytest.raises(DataError, match=r"run 'r' was begun with weights=\w+, .*: continue with --model"):
            await begin(*again, "r", "train")
        with pytest.raises(DataError, match=r"run 'r' was begun with weights=\w+, .*: continue with --model"):
            searched_trees(again[0], store, "r")
