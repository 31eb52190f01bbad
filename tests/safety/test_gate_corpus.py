"""The gate on the corpus of `benchmarks/gate.py`: what is published holds, and what was asked for is kept."""

import json
from pathlib import Path

import pytest

from benchmarks.gate import Case, cases, counted

PUBLISHED = json.loads((Path(__file__).parents[2] / "benchmarks/results/gate.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def corpus() -> list[Case]:
    return [*cases()]


def test_the_held_out_half_is_as_published(corpus: list[Case]) -> None:
    half = [case for case in corpus if case.half == "held-out"]
    for group in ("controls", "tricks"):
        assert counted([case for case in half if case.group == group]) == PUBLISHED[group]


@pytest.mark.parametrize("group", ["controls", "tricks", "oscar", "wagtail", "indico", "home_assistant"])
def test_recall_and_false_alarms(corpus: list[Case], group: str) -> None:
    found = counted([case for case in corpus if case.group == group])
    assert found["recall"]["share"] >= 0.95
    assert found.get("false_alarms", {"share": 0.0})["share"] <= 0.02
