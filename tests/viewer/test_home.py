"""The first page, lists by their goals, and what Compare opens with."""

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tiny_shop import LOOPBACK, PROVENANCE, play, shop_agent, shop_page, shop_task, shop_tree

from bestofq.agents.scorers import constant, critics, learned
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Outcome, Verdict
from bestofq.core.observation import Box, Point
from bestofq.core.usage import Usage
from bestofq.reports.values import KNOWN
from bestofq.search import tree_scorer
from bestofq.search.tree import MutableTree
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store
from bestofq.testing.scripted import ScriptedProposer
from bestofq.viewer.app import viewer_app
from bestofq.viewer.home import Pairs, compare, find_comparison
from bestofq.viewer.pages import address, duration, moment
from bestofq.viewer.steps import ScoreTable, candidate_views, is_inside, verdict
from bestofq.viewer.trees import branches, most_taken

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
    assert [(left.success, right.success) for left, right in pairs.differing] == [(False, True)] * 2
    page = words(browser.get("/compare").text)
    assert "They come to unlike outcomes on 2 of 3 tasks: best-of-q alone succeeds on 2" in page
    assert "find a blue mug They part at step 2" in page
    swapped = words(browser.get("/compare?run=eval&one=prior&other=prompting").text)
    assert "prompting alone succeeds on 0, best-of-q + prior alone on 2" in swapped
    same = words(browser.get("/compare?run=eval&one=prior&other=best-of-q").text)
    assert "They come to unlike outcomes on 0 of 3 tasks" in same
    chosen = browser.get("/compare?left={}&right={}".format(*(e.id for e in pairs.differing[1]))).text
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


CANDIDATES = tuple(Candidate(action=Click(mark=mark), label=f"click link Kettle {mark}") for mark in (1, 2))


def decided(scores: tuple[float, float], value: float | None = None) -> Decision:
    scorer = None if value is None else "QScorer"
    return Decision(candidates=CANDIDATES, scores=scores, state_value=value, chosen=1, scorer=scorer)


def test_a_scorer_that_is_recorded_says_what_its_scores_are() -> None:
    def by(scorer: str | None, *scores: float) -> ScoreTable:
        return ScoreTable.of([decided((scores[0], scores[1]), 0.3).model_copy(update={"scorer": scorer})])

    assert (by("QScorer", -7.5, 3.7).meaning.name, by("QScorer", -7.5, 3.7).meaning.values) == ("Q", True)
    assert (by("PriorScorer", 0.1, 0.4).meaning.name, by("PriorScorer", 0.1, 0.4).meaning.values) == (
        "log π + Q/β",
        False,
    )
    assert by("TreeScorer", 0.1, 0.4).meaning.name == "Q̃"
    assert by("SomebodysScorer", 0.1, 0.4).meaning.name == by(None, 0.1, 0.4).meaning.name == "score"
    assert by(None, 0.0, 0.0).informative  # V is
    assert not ScoreTable.of([decided((0.0, 0.0))]).informative


def test_the_scorers_that_are_distinguished_are_classes() -> None:
    modules = (constant, critics, learned, tree_scorer)
    assert set(KNOWN) <= {name for module in modules for name in vars(module)}


def test_a_candidate_acts_on_an_element_s_box_or_around_a_point_and_boxes_keep_to_the_viewport() -> None:
    seen = shop_page(0)
    point = Candidate(action=Click(point=Point(100.0, 50.0)), label="click (100, 50)")
    decision = Decision(candidates=(CANDIDATES[1], point), scores=(1.0, 0.0), chosen=0)
    boxes = [view.box for view in candidate_views(decision, seen, ScoreTable.of([decision]))]
    assert boxes == [seen.elements[1].box, (92.0, 42.0, 16.0, 16.0)]
    assert all(is_inside(box, seen) for box in boxes)
    assert not any(is_inside(box, seen) for box in (None, Box(0, 900, 9, 9), Box(-9, 0, 9, 9)))


def test_a_step_of_a_searching_agent_shows_its_visits_and_feedback() -> None:
    searched = decided((0.75, 0.5), 0.6).model_copy(
        update={"scorer": "TreeScorer", "visits": (6, 2), "feedback": (0.9, None)}
    )
    first, second = candidate_views(searched, shop_page(0), ScoreTable.of([searched]))
    shown = [[(bar.name, bar.words, bar.share) for bar in view.bars] for view in (first, second)]
    assert shown[0] == [("Q̃", "0.750", 1.0), ("visits", "6", 1.0), ("Q̂ feedback", "0.900", 0.9)]
    assert shown[1][1:] == [("visits", "2", pytest.approx(1 / 3)), ("Q̂ feedback", "–", None)]
    unranked = searched.model_copy(update={"feedback": None})
    (view, _) = candidate_views(unranked, shop_page(0), ScoreTable.of([unranked]))
    assert [bar.name for bar in view.bars] == ["Q̃", "visits"]


def test_the_way_most_taken_is_flat_with_what_was_tried_instead_under_each_action() -> None:
    tree = shop_tree(shop_task()).to_tree()
    assert most_taken(tree) == [0, 1, 3]
    drawn = branches(tree, alpha=0.5, threshold=0.2)
    assert [node.number for node in drawn.way] == [1, 3]
    first = drawn.way[0]
    assert [[node.number for node in way] for way in first.others] == [[2]]
    assert (first.q, first.tone) == (pytest.approx(0.45), 4)
    assert (drawn.tried, drawn.deepest) == (3, 2)
    assert branches(MutableTree(shop_task(), shop_page(0)).to_tree(), alpha=1.0, threshold=0.2).way == []


def test_the_sides_of_a_preference_pair_name_each_other() -> None:
    tree = shop_tree(shop_task()).to_tree()
    drawn = branches(tree, alpha=1.0, threshold=0.2)
    assert drawn.pairs == 1
    chosen = drawn.way[0]
    (rejected,) = chosen.others[0]
    labels = {node.number: tree.candidate[node.number].label for node in (chosen, rejected)}  # type: ignore[union-attr]
    assert labels == {chosen.number: "click link Kettle 2", rejected.number: "click link Kettle 1"}
    assert [(pair.chosen, pair.rejected, pair.margin) for pair in chosen.pairs] == [
        (chosen.number, rejected.number, 0.5)
    ]
    assert rejected.pairs == chosen.pairs


@pytest.mark.parametrize(
    ("scores", "explored", "said"),
    [
        ((0.424, 0.226), False, r"0\.424.*\+0\.198"),
        ((0.424, 0.423), False, r"0\.424.*\+0\.001.*tie"),
        ((0.4, 0.4), False, r"0\.400.*tie.*earlier"),
        ((0.1, 0.4), True, r"0\.400.*\+0\.300.*explore"),
    ],
)
def test_a_sentence_says_how_the_scores_decided(scores: tuple[float, float], explored: bool, said: str) -> None:
    decision = decided(scores, 0.3).model_copy(update={"chosen": 0, "explored": explored})
    assert re.search(said, verdict(decision, ScoreTable.of([decision])))


def test_the_way_leads_to_full_reward_where_a_rollout_came_to_it() -> None:
    tree = shop_tree(shop_task()).to_tree()
    won = tree.model_copy(update={"reward": (0.0, 0.0, 1.0, 0.0), "ending": ("open", "open", "ended", "ended")})
    assert most_taken(won) == [0, 2]


def test_words() -> None:
    assert [duration(s) for s in (None, 0.42, 12.0, 200.0, 7500.0)] == ["–", "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"]
    assert (moment("2026-01-31T12:05:09.123+00:00"), moment(None)) == ("2026-01-31 12:05:09", "–")
    assert address("/run", run="a/b&c", path=None) == "/run?run=a%2Fb%26c"
