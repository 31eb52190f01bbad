"""The budgets of the house. A budget is a ratchet: it may only be lowered."""

import pytest

from scripts.house import measure

BUDGETS: dict[str, int] = {}


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    return measure()


def test_every_size_has_a_budget(sizes: dict[str, int]) -> None:
    assert sizes.keys() == BUDGETS.keys()


@pytest.mark.parametrize("name", BUDGETS)
def test_size_is_within_its_budget(sizes: dict[str, int], name: str) -> None:
    assert sizes[name] <= BUDGETS[name], f"{name}: {sizes[name]} is over {BUDGETS[name]}: see python -m scripts.house"
