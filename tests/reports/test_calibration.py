from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.decision import Step
from bestofq.core.errors import InputError
from bestofq.reports.calibration import (
    Valued,
    are_values,
    calibration,
    calibration_table,
    valued_steps,
)
from bestofq.reports.figures import calibration_svg, values_svg
from bestofq.reports.values import read_values, telling_pair
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


async def test_q_is_held_against_what_came_of_it(store: Store) -> None:
    await fill(store)
    read = list(store.episodes())
    steps = valued_steps(read, "q", discount=0.5)
    assert [(s.q, s.outcome) for s in steps] == [(0.25, 0.5), (0.85, 1.0), (0.27, 0.0), (0.45, 0.0), (0.41, 0.0)]
    assert valued_steps(read, "plain") == []
    found = calibration(valued_steps(read, "q"), "q")
    assert [(b.low, b.steps, round(b.q, 3), b.outcome.value) for b in found.bins] == [
        (0.2, 2, 0.26, 0.5),
        (0.4, 2, 0.43, 0.0),
        (0.8, 1, 0.85, 1.0),
    ]
    assert found.ece.value == pytest.approx((2 * 0.24 + 2 * 0.43 + 1 * 0.15) / 5)
    assert found.bias.value == pytest.approx((0.25 + 0.85 + 0.27 + 0.45 + 0.41 - 2) / 5)
    # three draws of the two tasks: one of each, t twice and, past the end as no draw has less than both, u twice
    assert found.ece.interval.low == pytest.approx(0.298)
    assert found.ece.interval.high == pytest.approx((0.59 + 0.39 + 0.15) / 3)
    made = calibration_table([found], {})
    assert made.texts()[-1][5].startswith("0.298 [")


def test_values_outside_of_the_bins_go_into_the_nearest() -> None:
    steps = [Valued(task=n, q=q, outcome=1.0) for n, q in enumerate((-0.2, 1.3))]
    assert [(b.low, b.steps) for b in calibration(steps, "a").bins] == [(0.0, 1), (0.9, 1)]


async def test_the_scorer_s_name_says_whether_scores_are_values(store: Store) -> None:
    def by(scorer: str, *taken: float) -> list[Step]:
        steps = stepped(*taken)
        return [s.model_copy(update={"decision": s.decision.model_copy(update={"scorer": scorer})}) for s in steps]

    await record(store, "wild", task("t"), 0, by("QScorer", 2.5, 3.5))
    await record(store, "prior", task("t"), 0, by("PriorScorer", 0.5, 0.6))
    read = list(store.episodes())
    assert are_values(valued_steps(read, "wild"))
    assert valued_steps(read, "prior") == []  # log π + Q / β, though it lies where values do


def test_log_probabilities_are_no_values() -> None:
    def steps(*qs: float) -> list[Valued]:
        return [Valued(task=0, q=q, outcome=0.0) for q in qs]

    assert are_values(steps(0.1, 0.9, 1.02))
    assert not are_values(steps(0.1, -4.0, -2.0))
    assert not are_values([])


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


def test_pictures_of_calibration_are_drawn_and_refused_in_words() -> None:
    steps = [Valued(task=n, q=n / 20, outcome=float(n % 2)) for n in range(20)]
    found = calibration(steps, "a <b>")
    svg = calibration_svg(found)
    assert [node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("circle")]
    assert "a &lt;b&gt;" in svg
    with pytest.raises(InputError, match="no step with a value"):
        calibration_svg(calibration([], "a"))
