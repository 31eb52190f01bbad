"""Search on a site as anybody's open page, in Chromium: what cannot be taken back is valued and never done."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from scripted_shop import SearchField

from bestofq.browser.browser import Browser
from bestofq.config.context import OpenSuite
from bestofq.config.models import Models
from bestofq.config.settings import AgentQSettings, BestOfQSettings
from bestofq.core.decision import State
from bestofq.core.language import Request
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, LanguageModel
from bestofq.core.tree import SearchTree
from bestofq.envs.web import WebEnv
from bestofq.recipes import tree_search
from bestofq.recipes.collect import begin
from bestofq.recipes.tree_search import search_tasks, searching_agent
from bestofq.safety.irreversible import seems_irreversible
from bestofq.search.config import SearchConfig
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedModel
from bestofq_sites.booking.pages import COMPLETE, DETAILS
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.webshop.pages import BUY
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig

Ordered = Callable[[], bool]
"""Whether the site's own record holds an order."""


def customer(request: Request) -> Sequence[str]:
    """In the shop: searches, opens a result, buys. At the tables: takes the first of all there is, gives its name and
    completes, or tries to complete before. Of several actions the first listed is best."""
    if request.prompt.endswith("best:"):
        return [" 1"]
    page = request.prompt.rpartition("page:\n")[2].rpartition("goal: ")[0]

    def on(words: str) -> list[str]:
        return [f"click [{mark}]" for mark in re.findall(rf"{words}.*?\[(\d+)\]", page)]

    if orders := [*on(BUY), *on(COMPLETE)]:
        fields = ((name, re.search(rf'{name}: "(.*?)" \[(\d+)\]', page)) for name in DETAILS)
        empty = [f'write [{found[2]}] "ann@example.com"' for _, found in fields if found and not found[1]]
        return [*empty[:1], *orders]
    if "Search: " in page and "Restaurant" not in page:
        return ['write [1] "lamp" enter', 'write [1] "mug" enter']
    ways = (on(r"\$"), on("Find a table"), on(r"\d+:\d\d [AP]M"), on(r"sit\?\n"))
    links = [f"click [{mark}]" for mark in re.findall(r"\[(\d+)\] \w+, \$", page)]
    return (links or next((some for some in ways if some), []))[:3]


class Scripted(Models):
    @cached_property
    def prompted(self) -> LanguageModel:
        return ScriptedModel(customer)


def make_shop() -> WebShop:
    return synthetic_suite(SyntheticConfig(products_per_category=12, goals_per_product=1))


@asynccontextmanager
async def visited(suite: WebShop | Booking, record: str) -> AsyncIterator[tuple[Task, Ordered]]:
    """A task on its site as an open page. `record` is where the site notes an order."""
    async with serve(suite) as site:
        task = suite.tasks("train", 1)[0]
        root = site.open_visit(task)
        opened = task.model_copy(update={"start_url": f"{root}/"})
        yield opened, lambda: getattr(site.visits[root][1], record) is not None


def open_page(task: Task, browser: Browser, *, sandboxed: bool, steps: int = 12) -> OpenSuite:
    async def make_env() -> Env:
        return WebEnv(browser, screenshots=False)

    async def tasks(split: Split, limit: int | None) -> list[Task]:
        return [task]

    return OpenSuite(make_env, tasks, steps, irreversible=None if sandboxed else seems_irreversible)


async def searched(
    task: Task, browser: Browser, folder: Path, *, sandboxed: bool, models: Models | None = None, steps: int = 12
) -> SearchTree:
    """The recipe's search from an open page, with no knowledge of the site."""
    search = SearchConfig(iterations=5, candidates=2)
    models = models or Scripted(BestOfQSettings(agent_q=AgentQSettings(search=search)))
    suite = open_page(task, browser, sandboxed=sandboxed, steps=steps)
    with Store.open(folder) as store:
        await begin(models, suite, store, "search", "train")
        [tree] = await search_tasks(models, suite, store, "search", [task])
    return tree


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("make_suite", "record"), [(make_shop, "bought"), (Booking, "reservation")])
async def test_no_order_is_placed_though_ordering_is_weighed(
    make_suite: Callable[[], WebShop | Booking], record: str, browser: Browser, tmp_path: Path
) -> None:
    async with visited(make_suite(), record) as (task, ordered):
        tree = await searched(task, browser, tmp_path / "open", sandboxed=False)
        assert not ordered()
    unsafe = [node for node, ending in enumerate(tree.ending) if ending == "unsafe" and tree.visits[node]]
    assert unsafe
    for node in unsafe:
        candidate = tree.candidate[node]
        assert BUY in candidate.label or COMPLETE in candidate.label
        assert tree.page[node] == -1
        assert tree.value[node] == tree.prior[node]
    assert max(tree.value[node] for node in unsafe) > 0
    async with visited(make_suite(), record) as (task, ordered):
        tree = await searched(task, browser, tmp_path / "sandbox", sandboxed=True)
        assert ordered()
    assert "unsafe" not in tree.ending


def in_words(request: Request) -> Sequence[str]:
    """Searches by what it calls the search field, or goes back."""
    action = {"type": "write", "element": "the search field", "text": "mug", "enter": True}
    said = {"thought": "", "note": ""}
    return [
        json.dumps({"candidates": [{**said, "action": action}, {**said, "action": {"type": "go_back"}}], "best": 1})
    ]


class InWords(Models):
    prompted = None
    chatting = ScriptedModel(in_words)  # type: ignore[assignment]


@pytest.mark.asyncio(loop_scope="session")
async def test_elements_named_in_words_are_found_by_the_localizer(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_search, "make_localizer", lambda _: SearchField())
    search = SearchConfig(iterations=1, candidates=2)
    chosen = AgentQSettings(search=search, feedback="none")
    models = InWords(BestOfQSettings(by="words", localizer="vision", agent_q=chosen))
    async with visited(make_shop(), "bought") as (task, _):
        tree = await searched(task, browser, tmp_path, sandboxed=True, models=models, steps=1)
        suite = open_page(task, browser, sandboxed=True, steps=1)
        env = await suite.make_env()
        async with searching_agent(models, suite, None) as agent:
            state = State(task=task, observation=await env.reset(task, seed=0))
            decision = await agent.decide(state, np.random.default_rng(0))
        result = await env.step(decision.candidate.action)
        await env.close()
    found = tree.pages[tree.page[1]]
    assert (found.error, result.observation.error) == (None, None)
    assert found.url.endswith("/search?q=mug")
    assert result.observation.url.endswith("/search?q=mug")
