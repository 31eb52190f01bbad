"""Agent Q's search and what it learns from, in the shop, with a model that is a script."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from scripted_shop import Scripted, answering, models_with, shopper

from bestofq.cli.agent_q import run_agent_q
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.core.errors import DataError, InputError, ModelError
from bestofq.core.language import Generation, Request
from bestofq.core.observation import Task
from bestofq.core.preferences import PreferencePair
from bestofq.core.protocols import LanguageModel
from bestofq.core.tree import SearchTree
from bestofq.recipes import agent_q as recipe
from bestofq.recipes import tree_search
from bestofq.recipes.agent_q import agent_q, grow_training_trees
from bestofq.recipes.collect import Play, begin, collect
from bestofq.recipes.policy_training import (
    need_pairs,
    reinforce,
    source,
    step_pairs,
    successful_turns,
    trajectory_pairs,
    tune,
)
from bestofq.recipes.tree_search import search_tasks
from bestofq.reports.origin import setting
from bestofq.reports.stats import attempts_of, success_rate
from bestofq.store.location import Location
from bestofq.store.pairs import read_pairs, write_pairs
from bestofq.store.store import Store
from bestofq.store.trees import Trees
from bestofq.testing.scripted import ScriptedModel


async def search(models: Models, store: Store, tasks: int = 4, run: str = "search") -> list[SearchTree]:
    async with open_suite(models) as suite:
        await begin(models, suite, store, run, "train")
        return await search_tasks(models, suite, store, run, await suite.tasks("train", tasks))


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> list[SearchTree]:
    """The trees of eight rollouts on each of 16 tasks."""
    with Store.open(tmp_path_factory.mktemp("searched")) as store:
        return asyncio.run(search(models_with(8), store, tasks=16))


async def test_search_goes_on_where_it_ended_and_ends_in_the_tree_of_one_go(tmp_path: Path) -> None:
    with Store.open(tmp_path / "twice") as store:
        halves = await search(models_with(3), store)
        assert [tree.visits[0] for tree in halves] == [3] * 4
        twice = await search(models_with(8), store)
        assert list(store.trees.all("search")) == sorted(twice, key=lambda tree: tree.task.id)
    with Store.open(tmp_path / "once") as store:
        once = await search(models_with(8), store)
    assert [tree.visits[0] for tree in once] == [8] * 4
    assert [columns(tree) for tree in twice] == [columns(tree) for tree in once]


async def test_two_processes_that_search_the_same_tasks_do_no_rollout_twice(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_search, "POLL_SECONDS", 0.05)
    saved, save = list[int](), Trees.save

    async def counting(self: Trees, run: str, tree: SearchTree) -> None:
        await save(self, run, tree)
        saved.append(tree.visits[0])

    monkeypatch.setattr(Trees, "save", counting)
    shared = Location(database, str(tmp_path))
    with Store.open(shared) as one, Store.open(shared) as other:
        found = await asyncio.gather(*(search(models_with(3), store) for store in (one, other)))
    assert [columns(tree) for tree in found[0]] == [columns(tree) for tree in found[1]]
    assert sorted(saved) == sorted([1, 2, 3] * 4)


async def rounds(models: Models, store: Store, out: Path, number: int) -> Models:
    """Algorithm 1; the last policy."""
    async with open_suite(models) as suite:
        return await agent_q(models, suite, store, out, number)


async def test_two_rounds_of_search_draw_apart_on_the_same_tasks(tmp_path: Path) -> None:
    drawn: dict[str, set[int]] = {"search-1": set(), "search-2": set()}
    tasks: dict[str, list[Task]] = {}
    with Store.open(tmp_path) as store:
        for run, seeds in drawn.items():

            def noting(request: Request, seeds: set[int] = seeds) -> Sequence[str]:
                if not request.prompt.endswith("best:"):  # picks are greedy
                    seeds.add(request.seed)
                return shopper(request)

            models = answering(noting)(models_with(1).settings)
            tasks[run] = [tree.task for tree in await search(models, store, 2, run)]
    assert tasks["search-1"] == tasks["search-2"]  # whatever is drawn
    assert len(drawn["search-1"]) > 2  # another at each step of each task
    assert not drawn["search-1"] & drawn["search-2"]


def columns(tree: SearchTree) -> object:
    return tree.parent, tree.visits, tree.value, tree.prior, tree.ending, [c and c.label for c in tree.candidate]


@pytest.mark.parametrize("ended_by", ["an error", "cancelling"])
async def test_whatever_ends_a_search_ends_all_before_the_store_is_closed(ended_by: str, tmp_path: Path) -> None:
    asked = 0
    some_stored = asyncio.Event()

    def shopping(request: Request) -> Sequence[str]:
        nonlocal asked
        asked += 1
        if not some_stored.is_set() and store.trees.summaries():
            some_stored.set()
            if ended_by == "an error":
                raise ZeroDivisionError("a bug")
        return shopper(request)

    with Store.open(tmp_path) as store:
        searching = asyncio.create_task(search(answering(shopping)(models_with(8).settings), store))
        await some_stored.wait()
        if ended_by == "cancelling":
            searching.cancel()
        with pytest.raises(ZeroDivisionError if ended_by == "an error" else asyncio.CancelledError):
            await searching
    at_the_end = asked
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.sleep(0.1)
    assert asked == at_the_end
    with Store.open(tmp_path) as store:  # and what was stored before is gone on with
        stored = {tree.task.id: tree.visits[0] for tree in store.trees.all("search")}
        assert max(stored.values()) < 8
        found = {tree.task.id: tree.visits[0] for tree in await search(models_with(2), store)}
        assert found == {task: max(2, stored.get(task, 0)) for task in found}
        assert len(found) == 4


def test_what_is_learned_from_holds_the_tokens_and_likelihoods_as_drawn(trees: list[SearchTree]) -> None:
    models = models_with(8)
    assert any(tree.value[0] > 0 for tree in trees)
    pairs = list(step_pairs(models, trees))
    assert pairs
    for pair in pairs:
        (chosen,), (rejected,) = pair.chosen, pair.rejected
        assert chosen.prompt_ids == rejected.prompt_ids
        assert chosen.reply_ids != rejected.reply_ids
        assert chosen.log_prob == -len(chosen.reply_ids) / 100
        assert pair.margin >= 0.1
    assert len({(p.chosen, p.rejected) for p in pairs}) == len(pairs)
    prompt = models.local.tokenizer.decode(pairs[0].chosen[0].prompt_ids)
    assert "user: " in prompt
    assert "page: " in prompt
    whole = list(trajectory_pairs(models, trees))
    assert whole
    for pair in whole:
        assert len(pair.chosen) >= 4  # type, search, open, buy
        assert pair.chosen[0] == pair.rejected[0]  # the same first step
    won = list(successful_turns(models, trees))
    assert len(won) >= len(whole)
    need_pairs(pairs, len(trees))


def test_trees_without_tokens_are_refused_in_a_sentence(trees: list[SearchTree]) -> None:
    bare = [
        tree.model_copy(
            update={"candidate": tuple(c and c.model_copy(update={"reply_ids": None}) for c in tree.candidate)}
        )
        for tree in trees
    ]
    with pytest.raises(DataError, match="16 trees hold actions without tokens"):
        list(step_pairs(models_with(8), bare))
    with pytest.raises(InputError, match="of 16 search trees none holds"):
        need_pairs([], 16)


async def test_an_agent_that_searches_buys_right_more_often_than_the_model_alone(tmp_path: Path) -> None:
    models = models_with(12, candidates=10)
    with Store.open(tmp_path) as store:
        async with open_suite(models) as suite:
            rates = {}
            for kind in ("prompting", "mcts"):
                done = await collect(models, suite, store, "eval", Play(kind, split="dev", limit=12))
                rates[kind] = success_rate(attempts_of(done)).mean
        kept = store.runs()[0].config["agents"]
    assert rates["mcts"] > rates["prompting"] + 0.3
    searched = models.settings.agent_q.search.model_dump(mode="json")
    assert kept == {"mcts": {"agent_q": {"search": searched, "feedback": "model"}}}


async def test_pairs_travel_as_a_file_and_tune_a_model_that_plays(tmp_path: Path, weights: str) -> None:
    with Store.open(tmp_path / "store") as store:
        trees = await search(models_with(8, model=weights), store, tasks=6)
    models = models_with(8, model=weights)
    found = list(step_pairs(models, trees))
    file = write_pairs(tmp_path / "pairs.parquet", found, source(models))
    pairs = read_pairs(file, source=source(models))
    assert pairs == found
    curves: list[tuple[int, Mapping[str, float]]] = []
    tuned = tune(models, pairs[:4], tmp_path / "dpo", log=lambda *row: curves.append(row))
    assert [(step, {"loss", "accuracy", "lr"} <= {*numbers}) for step, numbers in curves] == [(1, True)]
    playing = models.with_model(tuned)
    assert playing.local.encode("user: a lamp") == models.local.encode("user: a lamp")
    assert playing.local.revision != models.local.revision
    with pytest.raises(DataError, match=r"drawn by another policy: .*revision"):
        read_pairs(file, source=source(playing))
    assert reinforce(models, trees, tmp_path / "rft").is_dir()


async def test_algorithm_1_searches_and_tunes_each_round_and_does_nothing_twice(tmp_path: Path, weights: str) -> None:
    models = models_with(6, model=weights, tasks=4)
    with Store.open(tmp_path / "store") as store:
        first = await rounds(models, store, tmp_path, 2)
        searched_tasks = [{tree.task.id for tree in store.trees.all(f"search-{number}")} for number in (1, 2)]
        again = await rounds(models, store, tmp_path, 2)
        grown_by = [setting(run.config, "agents.trees.weights") for run in store.runs()]
    assert len(set(grown_by)) == 2  # each round's own policy
    assert [len(tasks) for tasks in searched_tasks] == [4, 4]
    assert not searched_tasks[0] & searched_tasks[1]
    assert first.settings.model.path == again.settings.model.path == str(tmp_path / "policy-2" / "model")
    assert first.local.revision != models.local.revision


async def test_a_cut_round_is_not_searched_on_once_its_policy_has_begun_to_learn(tmp_path: Path, weights: str) -> None:
    settings = models_with(20, model=weights, tasks=2).settings
    asked = 0

    def breaking(request: Request) -> Sequence[str]:
        nonlocal asked
        asked += 1
        if asked > 40:
            raise ModelError("the endpoint is gone")
        return shopper(request)

    with Store.open(tmp_path / "store") as store:
        first = await rounds(answering(breaking)(settings), store, tmp_path, 1)
        cut = list(store.trees.all("search-1"))
        assert min(tree.visits[0] for tree in cut) < 20
        again = await rounds(Scripted(settings), store, tmp_path, 1)
        assert list(store.trees.all("search-1")) == cut
    assert first.settings.model.path == again.settings.model.path


async def test_each_round_trains_on_the_pairs_of_earlier_ones_with_their_own_likelihoods(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round's policy says what it drew with by its likelihoods: e^-1 in the first, e^-2 in the second, …"""
    trained: list[Sequence[PreferencePair]] = []

    class Drawing(Scripted):
        @cached_property
        def prompted(self) -> LanguageModel:
            class Likely(ScriptedModel):
                async def generate(self, request: Request) -> Generation:
                    found = await super().generate(request)
                    return replace(found, replies=tuple(replace(r, log_prob=-number) for r in found.replies))

            number = len(trained) + 1.0
            return Likely(shopper)

    def tuned(models: Models, pairs: Sequence[PreferencePair], out: Path) -> Path:
        trained.append(pairs)
        return Path(weights)

    monkeypatch.setattr(recipe, "tune", tuned)
    settings = models_with(6, model=weights, tasks=4).settings
    with Store.open(tmp_path / "store") as store:
        await rounds(Drawing(settings), store, tmp_path, 3)
        own = [len(list(step_pairs(Drawing(settings), store.trees.all(f"search-{n}")))) for n in (1, 2, 3)]
    drawn = [Counter(-turn.log_prob for pair in pairs for turn in (*pair.chosen, *pair.rejected)) for pairs in trained]
    assert min(own) > 0
    assert drawn == [{float(n): 2 * own[n - 1] for n in numbers} for numbers in ((1,), (1, 2), (1, 2, 3))]


async def test_too_few_training_tasks_are_found_out_before_the_first_search(tmp_path: Path) -> None:
    models = models_with(2, model="pocket-agentq", tasks=2500)
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(InputError, match=r"3 × 2500 .* webshop has \d+: set agent_q.tasks to \d+ or less"):
            await rounds(models, store, tmp_path, 3)
        async with open_suite(models) as suite:
            with pytest.raises(InputError, match="3 × 2500"):
                await grow_training_trees(models, suite, store, "late", part=2)
        assert not store.runs()


def test_the_command_of_algorithm_1_goes_on_where_an_error_ended_it_and_ends_in_the_policies_of_one_go(
    tmp_path: Path, weights: str, printed: Callable[[], str]
) -> None:
    settings = models_with(6, model=weights, tasks=4).settings
    asked = 0

    def go(folder: str, until: int | None = None) -> tuple[int, str]:
        """How often the model was asked, and what was said; `until`: a question that breaks it."""
        nonlocal asked

        def shopping(request: Request) -> Sequence[str]:
            nonlocal asked
            asked += 1
            if asked == until:
                raise ZeroDivisionError("a bug")
            return shopper(request)

        asked = 0
        out = tmp_path / folder
        assert (
            run_agent_q(answering(shopping)(settings), Location.of(out / "store"), out, 2) == out / "policy-2" / "model"
        )
        return asked, printed()

    once, said = go("once")
    for number in (1, 2):
        replayed = r" and \d+ of earlier rounds" if number == 2 else ""
        assert re.search(rf"round {number} of 2: \d+ pairs of 4 trees{replayed}; the policy:\s\S+policy-{number}", said)
        assert f"search-{number}" in said.partition("webshop, train")[2]  # the table
    with pytest.raises(ZeroDivisionError):
        go("twice", until=once - 5)  # in the second round
    assert (tmp_path / "twice" / "policy-1" / "model").is_dir()
    assert not (tmp_path / "twice" / "policy-2").exists()
    assert 0 < go("twice")[0] < once
    for number in (1, 2):
        one, two = (load_file(tmp_path / run / f"policy-{number}/model/model.safetensors") for run in ("once", "twice"))
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert go("twice")[0] == 0
