from xml.etree import ElementTree

import pytest
from report_nouns import PROVENANCE, decision, page, record, task

from bestofq.core.decision import Step
from bestofq.core.errors import InputError
from bestofq.reports.figures import bars_svg, values_svg
from bestofq.reports.rows import Selection
from bestofq.reports.success import agent_results
from bestofq.reports.values import read_values
from bestofq.store.store import Store

SVG = "{http://www.w3.org/2000/svg}"


def of_class(svg: str, name: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg).iter() if name in node.get("class", "").split()]


async def test_bars_are_as_long_as_success_and_the_baseline_is_plain(store: Store) -> None:
    for name, prompting in (("a", "success"), ("b", "failure")):
        await record(store, "prompting", task(name), 0, 1, "success" if prompting == "success" else "failure")
        await record(store, "an agent <with> a rather long name", task(name), 0, 1)
    results = agent_results(store, Selection(baseline="prompting"))
    svg = bars_svg([(row.agent, row.rate) for row in results.rows], baseline=results.baseline)
    half, whole = (float(bar.get("width", "")) for bar in of_class(svg, "bar"))
    assert whole == pytest.approx(2 * half)
    assert len(of_class(svg, "baseline")) == 1
    assert len(of_class(svg, "whisker")) == 2
    assert [node.text for node in of_class(svg, "value")] == ["50.0 %", "100.0 %"]
    assert ElementTree.fromstring(svg).find(f"{SVG}style") is not None


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


async def test_the_path_of_an_episode_is_drawn_whole(store: Store) -> None:
    await fill(store)
    episode = store.episode(next(e.id for e in store.summaries(agent="q") if not e.success))
    values = [(s.state_value, s.taken, s.others) for s in read_values(episode)]
    assert values == [(0.5, taken, (0.1, 0.2)) for taken in (0.27, 0.45, 0.41)]
    root = ElementTree.fromstring(values_svg(episode))
    drawn = [node for node in root.iter() if node.get("class") == "other" and node.get("r") == "3"]
    assert len(drawn) == 6
    (line,) = [node for node in root.iter() if node.get("class") == "line s0"]
    heights = [float(pair.split(",")[1]) for pair in line.get("points", "").split()]
    assert heights[1] < heights[2] < heights[0]  # the higher the value, the higher on paper
    assert values_svg(store.episode(store.summaries(agent="plain")[0].id))
    with pytest.raises(InputError, match="holds no value"):
        values_svg(episode, steps=())
