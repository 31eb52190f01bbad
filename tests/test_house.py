"""The budgets of the house. A budget is a ratchet: it may only be lowered."""

import pytest

from scripts.house import measure

BUDGETS = {
    "library lines": 27_034,
    "sites lines": 2_991,
    "experiments lines": 6_731,
    "library, sites and experiments lines": 36_756,
    "test lines": 27_762,
    "import depth": 14,
    "modules in import circles": 0,
    "settings": 123,
    "settings that nobody sets": 0,
    "functions named by a participle": 1,
    "odd phrases": 6,
    "long sentences": 31,
    "class names with two meanings": 0,
    "README lines": 91,
    "CHANGELOG lines": 110,
    "results lines": 214,
    "architecture lines": 145,
}


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    return measure()


def test_every_size_has_a_budget(sizes: dict[str, int]) -> None:
    assert sizes.keys() == BUDGETS.keys()


@pytest.mark.parametrize("name", BUDGETS)
def test_size_is_within_its_budget(sizes: dict[str, int], name: str) -> None:
    assert sizes[name] <= BUDGETS[name], f"{name}: {sizes[name]} is over {BUDGETS[name]}: see python -m scripts.house"
