"""An ablation's arms by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from bestofq.store.records import EpisodeSummary
from experiments.ablation_table import ablation_table, results_of


class Rated(NamedTuple):
    task: str
    good: tuple[bool, ...]
    chosen: int


@dataclass
class ArmResult:
    name: str
    ranked: list[list[Rated]]  # a list a seed
    values: Sequence[str] = ("q0", "q1")
    learned: list[EpisodeSummary] = field(default_factory=list)
    played: list[list[EpisodeSummary]] = field(default_factory=list)


def arm(name: str, *seeds: Sequence[int]) -> ArmResult:
    """Of three steps of three tasks, each with its second candidate right, what was chosen."""
    return ArmResult(
        name, [[Rated(task, (False, True), at) for task, at in zip("tuv", chosen, strict=True)] for chosen in seeds]
    )


def test_right_choices_over_seeds_and_their_difference_to_the_first_arm() -> None:
    base, other = results_of([arm("base", (0, 1, 1), (0, 0, 1)), arm("other", (1, 1, 1), (0, 0, 1))])
    assert (base.right.value, base.right_by_seed) == (0.5, (2 / 3, 1 / 3))
    assert other.right_difference.mean == pytest.approx(4 / 6 - 3 / 6)
    assert other.right_difference.tasks == base.contested == 3
    assert (base.first, base.chance, base.right_difference) == (0.0, 0.5, None)
    assert ablation_table("T", [base, other]).texts()[1][-1].startswith("+16.7 [")
