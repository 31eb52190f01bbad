from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.decision import Step
from bestofq.core.errors import InputError
from bestofq.reports.figures import values_svg
from bestofq.reports.values import has_values, read_values, telling_pair
from bestofq.store.store import Store


def stepped(*taken: float, value: float | None = 0.5) -> list[Step]:
    """Steps of which the second candidate is taken, with these values."""
    return [
        Step(index=i, observation=page(i), decision=decision((0.1, q, 0.2), value=value)) for i, q in enumerate(taken)
    ]


async def fill(store: Store) -> None:
    await store.begin_run("eval", {}, PROVENANCE)
    await record(store, "q", task("t"), 0, stepped(0.25, 0.85), "success")
    await record(store, "q", task("u"), 0, stepped(0.27, 0.45, 0.41), "failure")
    await record(store, "plain", task("t"), 0, stepped(0.3, value=None), "success")
    await record(store, "q", task("u"), 1, stepped(0.9), "infra_error")


@pytest.mark.parametrize(("scorer", "expected"), [("QScorer", True), ("PriorScorer", False), (None, True)])
async def test_the_scorer_s_name_or_a_state_value_says_that_scores_are_values(
    store: Store, scorer: str | None, expected: bool
) -> None:
    update = {"scorer": scorer}
    steps = [s.model_copy(update={"decision": s.decision.model_copy(update=update)}) for s in stepped(0.5, 0.6)]
    await record(store, "q", task("t"), 0, steps)
    assert has_values(store.episodes()) is expected
    assert not has_values([])


async def test_the_path_of_an_episode_is_drawn_whole(store: Store) -> None:
    await fill(store)
    episode = store.episode(next(e.id for e in store.summaries(agent="q") if not e.success))
    assert [(s.state_value, s.taken, s.others) for s in read_values(episode)] == [
        (0.5, 0.27, (0.1, 0.2)),
        (0.5, 0.45, (0.1, 0.2)),
        (0.5, 0.41, (0.1, 0.2)),
    ]
    root = ElementTree.fromstring(values_svg(episode))
    drawn = [node for node in root.iter() if node.get("class") == "other" and node.get("r") == "3"]
    assert len(drawn) == 6
    (line,) = [node for node in root.iter() if node.get("class") == "line s0"]
    heights = [float(pair.split(",")[1]) for pair in line.get("points", "").split()]
    assert heights[1] < heights[2] < heights[0]  # the higher the value, the higher on paper
    assert values_svg(store.episode(store.summaries(agent="plain")[0].id))
    with pytest.raises(InputError, match="holds no value"):
        values_svg(episode, steps=())


async def test_the_telling_pair_is_of_one_task_where_one_has_both(store: Store) -> None:
    await record(store, "q", task("easy"), 0, 1)
    await record(store, "q", task("hard"), 0, 9, "failure")
    await record(store, "q", task("both"), 0, 3)
    await record(store, "q", task("both"), 1, 2)
    await record(store, "q", task("both"), 2, 5, "failure")
    pair = telling_pair(store.summaries())
    alone = telling_pair([e for e in store.summaries() if e.key.task != "both"])
    assert [(e.key.task, e.steps) for e in pair] == [("both", 2), ("both", 5)]
    assert [(e.key.task, e.steps) for e in alone] == [("easy", 1), ("hard", 9)]
    assert telling_pair([]) == []
