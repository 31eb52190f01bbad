"""The learning curve, and the pictures that are committed beside their results."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.figures import drawn
from experiments.learning_curve import CurvePoint, learning_curve_svg

STUDIES = Path(__file__).parents[2] / "experiments"
SVG = "{http://www.w3.org/2000/svg}"


def of_class(svg: str, name: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg).iter() if name in node.get("class", "").split()]


def test_the_curve_rises_on_paper_where_success_rises() -> None:
    points = [
        CurvePoint(episodes=2000, successes=1000, success=0.6, low=0.5, high=0.7),
        CurvePoint(episodes=0, successes=0, success=0.4, low=0.3, high=0.5),
    ]
    svg = learning_curve_svg(points, baseline=("A & <B>", 0.4))
    (line,) = of_class(svg, "line")
    (x0, y0), (x1, y1) = (map(float, pair.split(",")) for pair in line.get("points", "").split())
    assert x0 < x1
    assert y0 > y1
    (base,) = of_class(svg, "base")
    assert float(base.get("y1", "")) == pytest.approx(y0, abs=0.1)
    assert len(of_class(svg, "band")) == 1
    assert [node.text for node in of_class(svg, "baseline-text")] == ["A & <B> 40.0 %"]


@pytest.mark.parametrize("points", [[(0, 0.0)], [(1, 1.0)], [(7, 0.03), (7_000_000, 0.04)], [(1, 0.5), (2, 0.51)]])
def test_any_curve_stays_on_the_paper(points: list[tuple[int, float]]) -> None:
    svg = learning_curve_svg(
        [CurvePoint(episodes=n, successes=0, success=rate, low=0.0, high=1.0) for n, rate in points]
    )
    for node in ElementTree.fromstring(svg).iter(f"{SVG}circle"):
        assert 0 <= float(node.get("cx", "")) <= 560
        assert 0 <= float(node.get("cy", "")) <= 300
    assert 2 <= len(of_class(svg, "rule")) <= 12


def test_committed_pictures_are_what_their_results_say() -> None:
    """Where this fails: `python -m experiments figures`."""
    pictures = dict(drawn(STUDIES))
    assert len(pictures) > 30
    assert [path for path, picture in pictures.items() if path.read_text("utf-8") != picture] == []
