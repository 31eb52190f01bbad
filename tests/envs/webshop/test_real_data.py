"""WebShop's own 1,000 products: what the published code makes of them, this code makes too."""

import os
from pathlib import Path

import pytest

from bestofq.core.observation import Split
from bestofq_sites.webshop.goals import synthetic_goals
from bestofq_sites.webshop.products import Catalogue, ShopGoal
from bestofq_sites.webshop.reward import RewardFunction
from bestofq_sites.webshop.settings import WebShopSettings
from bestofq_sites.webshop.source import load_catalogue
from bestofq_sites.webshop.suite import real_suite

ROOT = Path(__file__).parents[3]
SIBLING = ROOT.parent / "shared" / "data" / "webshop"
FOLDER = Path(os.environ.get("BESTOFQ_WEBSHOP_DATA", SIBLING))
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"WebShop's files are not in {FOLDER}: set BESTOFQ_WEBSHOP_DATA to their folder"
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(FOLDER, seed=0)


@pytest.fixture(scope="module")
def goals(catalogue: Catalogue) -> tuple[ShopGoal, ...]:
    return synthetic_goals(catalogue.values(), seed=0)


def test_there_are_6910_goals(goals: tuple[ShopGoal, ...]) -> None:
    assert len(goals) == len({goal.id for goal in goals}) == 6910
    assert all(goal.attributes for goal in goals)


def test_the_suite_of_the_real_files_splits_as_webshop_does() -> None:
    suite = real_suite(WebShopSettings(data=FOLDER, seed=0))
    assert {split: len(suite.tasks(split)) for split in SPLITS} == {"test": 500, "dev": 1000, "train": 5410}
    assert len(suite.products("test")) == 1000
    assert suite.server("test") is suite.server("train")
    apart = real_suite(WebShopSettings(data=FOLDER, seed=0, splits="product"))
    assert not apart.products("test").keys() & apart.products("train").keys()


def test_what_the_buyer_asked_for_earns_one_but_for_the_published_quirk(
    catalogue: Catalogue, goals: tuple[ShopGoal, ...]
) -> None:
    """Type, attributes and price always match; 458 goals name an option value that holds a colour
    word inside another word, or white space that the comparison drops."""
    reward = RewardFunction(catalogue.values())
    parts = [reward(goal, goal.product_id, dict(goal.options)) for goal in goals]
    assert {(part.r_type, part.r_att, part.r_price) for part in parts} == {(1.0, 1.0, 1.0)}
    assert sum(part.total == 1.0 for part in parts) == 6910 - 458
