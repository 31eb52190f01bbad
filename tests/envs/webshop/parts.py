"""The parts of a split, as the suite gives them."""

from collections.abc import Sequence

from bestofq.core.observation import Split
from bestofq_sites.webshop.products import Catalogue, Product, ShopGoal
from bestofq_sites.webshop.settings import Splits, WebShopSettings
from bestofq_sites.webshop.suite import WebShop


def goals_of(
    split: Split, goals: Sequence[ShopGoal], *, splits: Splits = "product", seed: int = 0
) -> Sequence[ShopGoal]:
    return WebShop("shop", {}, goals, WebShopSettings(seed=seed, splits=splits)).goals_of(split)


def products_of(split: Split, products: Sequence[Product], *, seed: int) -> Catalogue:
    return WebShop("shop", {p.id: p for p in products}, (), WebShopSettings(seed=seed)).products(split)
