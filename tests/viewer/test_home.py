"""The first page, lists by their goals, and what Compare opens with."""

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tiny_shop import LOOPBACK, PROVENANCE, play, shop_agent, shop_task, shop_tree

from bestofq.core.decision import Outcome, Verdict
from bestofq.core.usage import Usage
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer
from bestofq.viewer.app import viewer_app
from bestofq.viewer.home import Pairs, compare, find_comparison

GOALS = {"kettles--0": "find a red kettle", "mugs--0": "find a blue mug", "mugs--1": "find a red mug"}


class Paid(ScriptedProposer):
    """Each proposal costs 100 tokens and has no price."""

    async def propose(self, state, n):  # type: ignore[no-untyped-def]
        found = await super().propose(state, n)
        return found.model_copy(update={"usage": (Usage(role="proposer", tokens_in=90, tokens_out=10, calls=1),)})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """`prior` and `best-of-q` succeed everywhere, `prompting` at nothing but the first task."""
    folder = tmp_path_factory.mktemp("home")

    async def fill() -> None:
        with Store.open(folder) as opened:
            for name in ("prior", "best-of-q", "prompting"):
                for task, goal in GOALS.items():
                    agent = shop_agent(name, hasty=name == "prompting" and task != "kettles--0")
                    agent = replace(agent, proposer=Paid(lambda state, n: ["on\nclick [2]", "aside\nclick [1]"]))
                    await play(opened, agent, task=shop_task(task, goal))
            await play(opened, shop_agent("explore"), shop_agent("prompting"), run="later")  # fewer tasks, later
            await opened.trees.save("later", shop_tree(shop_task()).to_tree())

    asyncio.run(fill())
    with Store.open(folder, read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser(store: Store) -> TestClient:
    return TestClient(viewer_app(store, name="tests"), base_url=LOOPBACK)


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_run_s_agents_are_compared_in_one_order_with_intervals_and_costs(store: Store) -> None:
    found = compare(store, "eval")
    assert [line.agent for line in found.lines] == ["prompting", "best-of-q", "prior"]
    first, main, _ = found.lines
    assert found.main == main
    assert (first.difference, first.tasks, first.tokens, first.usd) == (None, 3, pytest.approx(700 / 3), None)
    assert main.difference.mean == pytest.approx(2 / 3)
    assert first.rate.interval is not None
    assert first.rate.value == pytest.approx(1 / 3)
    assert found.pareto is not None
    assert compare(store, "nothing") is None


def test_the_first_page_shows_the_largest_comparison_and_each_agent_by_itself(browser: TestClient) -> None:
    page = browser.get("/").text
    said = words(page)
    assert "best-of-q against prompting: +66.7 points of success" in said
    assert "prompting 33 % best-of-q 100 % best-of-q + prior 100 %" in said  # of the run, never a mean over agents
    assert "2 runs, 11 episodes, 1 search tree" in said
    assert "find a blue mug" in said
    assert page.count("<svg") == 2


def test_episodes_are_found_by_words_of_their_goals_and_by_ids(store: Store, browser: TestClient) -> None:
    for find, number in (("RED mug", 3), ("kettles--0", 5), ("red", 8), ("green", 0)):
        found = store.catalogue.found(EpisodeFilter(find=find))
        assert store.catalogue.count(found) == number, find
    page = words(browser.get("/episodes?find=blue").text)
    assert "find a blue mug shop mugs--0 #0" in page
    assert "red" not in page.partition("UTC")[2].partition("Reward")[0]
    trees = store.trees.summaries()
    assert store.trees.goals(trees) == {trees[0]: "find a red kettle"}
    assert "find a red kettle" in browser.get("/trees").text


def test_compare_opens_with_prompting_beside_best_of_q_where_they_differ(store: Store, browser: TestClient) -> None:
    found = compare(store, "eval")
    assert found is not None
    pairs = Pairs.of(found, None, None)
    assert (pairs.one, pairs.other, pairs.tasks) == ("prompting", "best-of-q", 3)
    assert [pair.gained for pair in pairs.differing] == [True, True]
    page = words(browser.get("/compare").text)
    assert "They come to unlike outcomes on 2 of 3 tasks: best-of-q alone succeeds on 2" in page
    assert "find a blue mug They part at step 2" in page
    swapped = words(browser.get("/compare?run=eval&one=prior&other=prompting").text)
    assert "prompting alone succeeds on 0, best-of-q + prior alone on 2" in swapped
    same = words(browser.get("/compare?run=eval&one=prior&other=best-of-q").text)
    assert "They come to unlike outcomes on 0 of 3 tasks" in same
    chosen = browser.get(f"/compare?left={pairs.differing[1].left}&right={pairs.differing[1].right}").text
    assert re.search(r'aria-current="true">\s*<span class="tag good">gained</span> find a red mug', chosen)


async def test_compare_puts_tries_of_the_same_number_beside_each_other(tmp_path: Path) -> None:
    """The first try of prompting has no verdict: its second one must not stand beside the first of best-of-q."""
    tried: dict[str, list[Outcome]] = {
        "prompting": ["unjudged", "failure", "success"],
        "best-of-q": ["success", "failure", "success"],
    }
    with Store.open(tmp_path) as opened:
        await opened.begin_run("eval", {}, PROVENANCE)
        for name, outcomes in tried.items():
            for repeat, outcome in enumerate(outcomes):
                episode = await opened.begin_episode("eval", name, shop_task(), repeat, PROVENANCE)
                await opened.finish_episode(episode, Verdict(reward=0.0, outcome=outcome), None)
        found = compare(opened, "eval")
    assert found is not None
    pairs = Pairs.of(found, "prompting", "best-of-q")
    assert (pairs.tasks, pairs.differing) == (1, [])


async def test_the_rates_of_an_unfinished_run_come_with_a_warning(tmp_path: Path) -> None:
    warning = "This run is not finished. Short episodes end first"
    with Store.open(tmp_path) as opened:
        browser = TestClient(viewer_app(opened, name="tests"), base_url=LOOPBACK)
        await opened.begin_run("eval", {}, PROVENANCE)
        ids = [
            await opened.begin_episode("eval", name, shop_task(), repeat, PROVENANCE)
            for repeat, name in itertools.product((0, 1), ("prompting", "best-of-q"))
        ]
        for number, episode in enumerate(ids):
            await opened.finish_episode(episode, Verdict(reward=0.0, outcome="failure"), None)
            running = number < len(ids) - 1
            assert (warning in browser.get("/run?run=eval").text) == running
            assert ("Runs with running episodes are not finished" in browser.get("/").text) == running


async def test_a_comparison_is_of_the_verdicts_there_are(tmp_path: Path) -> None:
    with Store.open(tmp_path) as opened:
        await opened.begin_run("eval", {}, PROVENANCE)
        for name, repeat in itertools.product(("prompting", "best-of-q"), (0, 1)):
            episode = await opened.begin_episode("eval", name, shop_task(), repeat, PROVENANCE)
            await opened.finish_episode(episode, Verdict(reward=0.0, outcome="unjudged"), None)

        async def judged(*outcomes: Outcome) -> list[str]:
            for e in opened.summaries(run="eval"):
                await opened.add_verdict(e.id, Verdict(reward=0.0, outcome=outcomes[e.repeat], judge="j"), adopt=True)
            found = find_comparison(opened, "eval")
            return [e.outcome for e in sorted(found.episodes, key=lambda e: e.repeat)]

        assert await judged("success", "failure") == ["success"] * 2 + ["failure"] * 2
        assert await judged("failure", "success") == ["failure"] * 2 + ["success"] * 2  # as many as before
