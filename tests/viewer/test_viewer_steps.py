"""What is drawn of a step, as data."""

import pytest
from tiny_shop import shop_page, shop_task, shop_tree

from bestofq.agents.scorers import constant, critics, learned
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision
from bestofq.core.observation import Box, Point
from bestofq.reports.values import KNOWN
from bestofq.search import tree_scorer
from bestofq.search.tree import MutableTree
from bestofq.viewer.pages import address, duration, moment
from bestofq.viewer.steps import (
    ScoreTable,
    candidate_views,
    is_inside,
    verdict,
)
from bestofq.viewer.trees import branches, most_taken

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
    assert [[node.number for node in stretch] for stretch in drawn.way] == [[1], [3]]
    first = drawn.way[0][0]
    assert [[node.number for node in stretch] for (stretch,) in first.others] == [[2]]
    assert (first.q, first.tone) == (pytest.approx(0.45), 4)
    assert (drawn.tried, drawn.deepest) == (3, 2)


def test_a_long_way_without_another_action_is_folded_but_for_its_end() -> None:
    grown = MutableTree(shop_task(), shop_page(0))
    path = [0]
    for mark in range(1, 7):
        path.append(grown.child(path[-1], Candidate(action=Click(mark=mark), label=f"click {mark}")))
    aside = grown.child(path[1], Candidate(action=Click(mark=9), label="click 9"))
    grown.backup(path, 1.0)
    drawn = branches(grown.to_tree(), alpha=1.0, threshold=0.2)
    numbers = [[node.number for node in stretch] for stretch in drawn.way]
    assert numbers == [[path[1]], [path[2]], path[3:6], [path[6]]]
    (other,) = drawn.way[1][0].others
    assert [(node.number, node.tone) for stretch in other for node in stretch] == [(aside, -1)]
    assert branches(MutableTree(shop_task(), shop_page(0)).to_tree(), alpha=1.0, threshold=0.2).way == []


def test_the_sides_of_a_preference_pair_name_each_other() -> None:
    tree = shop_tree(shop_task()).to_tree()
    drawn = branches(tree, alpha=1.0, threshold=0.2)
    assert drawn.pairs == 1
    chosen = drawn.way[0][0]
    ((rejected,),) = chosen.others[0]
    labels = {node.number: tree.candidate[node.number].label for node in (chosen, rejected)}  # type: ignore[union-attr]
    assert labels == {chosen.number: "click link Kettle 2", rejected.number: "click link Kettle 1"}
    assert [(pair.chosen, pair.rejected, pair.margin) for pair in chosen.pairs] == [
        (chosen.number, rejected.number, 0.5)
    ]
    assert rejected.pairs == chosen.pairs


@pytest.mark.parametrize(
    ("scores", "chosen", "explored", "said"),
    [
        ((0.424, 0.226), 0, False, "Q 0.424, +0.198 over the second."),
        ((0.424, 0.423), 0, False, "Q 0.424, +0.001 over the second: a tie."),
        ((0.4, 0.4), 0, False, "Q 0.400, as much as the second: a tie, which the earlier one wins."),
        ((0.1, 0.4), 0, True, "The best has Q 0.400, +0.300 over the second. Another was taken, to explore."),
    ],
)
def test_a_sentence_says_how_the_scores_decided(
    scores: tuple[float, float], chosen: int, explored: bool, said: str
) -> None:
    decision = decided(scores, 0.3).model_copy(update={"chosen": chosen, "explored": explored})
    assert verdict(decision, ScoreTable.of([decision])) == said


def test_the_way_leads_to_full_reward_where_a_rollout_came_to_it() -> None:
    tree = shop_tree(shop_task()).to_tree()
    won = tree.model_copy(update={"reward": (0.0, 0.0, 1.0, 0.0), "ending": ("open", "open", "ended", "ended")})
    assert most_taken(won) == [0, 2]


def test_words() -> None:
    assert [duration(s) for s in (None, 0.42, 12.0, 200.0, 7500.0)] == ["–", "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"]
    assert (moment("2026-01-31T12:05:09.123+00:00"), moment("yesterday")) == ("2026-01-31 12:05:09", "yesterday")
    assert address("/run", run="a/b&c", path=None) == "/run?run=a%2Fb%26c"
