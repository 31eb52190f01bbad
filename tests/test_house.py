"""The budgets of the house. A budget is a ratchet: it may only be lowered."""

import pytest

from scripts.house import measure

BUDGETS = {
    "library lines": 35_876,
    "sites lines": 3_200,
    "experiments lines": 7_500,
    "library, sites and experiments lines": 44_300,
    "test lines": 33_500,
    "import depth": 15,
    "modules in import circles": 2,
    "settings": 276,
    "settings that nobody sets": 47,
    "functions named by a participle": 18,
    "odd phrases": 399,
    "long sentences": 391,
    "class names with two meanings": 0,
    "README lines": 91,
    "CHANGELOG lines": 601,
    "results lines": 1_434,
    "architecture lines": 334,
}


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    return measure()


def test_every_size_has_a_budget(sizes: dict[str, int]) -> None:
    assert sizes.keys() == BUDGETS.keys()


@pytest.mark.parametrize("name", BUDGETS)
def test_size_is_within_its_budget(sizes: dict[str, int], name: str) -> None:
    assert sizes[name] <= BUDGETS[name], f"{name}: {sizes[name]} is over {BUDGETS[name]}: see python -m scripts.house"
