"""Two harder shops. Fields of the shop's own settings can be set as there, such as `suite.only`.

bestofq eval --set suite.name=experiments.shops:plain       WebShop's own button, which names no option, price or title
bestofq eval --set suite.name=experiments.shops:reworded    goals in words that its frozen model has not learned to read
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from bestofq_sites.local_site.page import Button, Page
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.webshop.pages import BUY, Item, Shop
from bestofq_sites.webshop.products import Product, ShopGoal
from bestofq_sites.webshop.settings import WebShopSettings
from bestofq_sites.webshop.suite import WebShop, synthetic_suite

GOALS = (
    "my sister asked me for {what}, she can pay {limit} dollars at most",
    "help me pick {what} - nothing above {limit} dollars",
    "we ran out, so get {what}. {limit} dollars is too much already",
    "id like to purchase {what}; keep it beneath {limit} dollars",
    "need {what} for a friend, with {limit} dollars in my pocket",
)
OPTIONS = ("make it {value}", "{value} for the {name}", "{name} has to be {value}", "only {value} will do")


class PlainShop(Shop):
    """The shop's pages, but for the button."""

    def _item_page(self, view: Item) -> Page:
        page = super()._item_page(view)
        *before, last = page.parts
        assert isinstance(last, tuple)
        line = tuple(replace(each, name=BUY) if isinstance(each, Button) else each for each in last)
        return replace(page, parts=(*before, line))


class PlainSettings(WebShopSettings):
    rules: ClassVar[str] = "experiments.shops:plain_shop"


class RewordedSettings(WebShopSettings):
    rules: ClassVar[str] = "experiments.shops:reworded_shop"


def plain_shop(settings: PlainSettings) -> WebShop:
    suite = synthetic_suite(settings=settings)
    suite.name, suite.make_shop = "webshop-plain", PlainShop
    return suite


def reworded_shop(settings: RewordedSettings) -> WebShop:
    suite = synthetic_suite(settings=settings)
    goals = {goal.id: in_other_words(goal, suite.catalogue[goal.product_id]) for goal in suite.goals.values()}
    suite.name, suite.goals = "webshop-reworded", goals
    return suite


def in_other_words(goal: ShopGoal, product: Product) -> ShopGoal:
    """The same goal. Its words depend on its id alone."""
    rng = random.Random(f"words-{goal.id}")
    wishes = [rng.choice(OPTIONS).format(name=name, value=value) for name, value in goal.options]
    what = ", ".join([product.instruction or product.query, *wishes])
    sentence = rng.choice(GOALS).format(what=what, limit=int(goal.price_limit))
    return goal.model_copy(update={"instruction": sentence})


def plain(settings: Mapping[str, Any]) -> LocalSuite:
    return LocalSuite(PlainSettings.model_validate({**settings, "name": "webshop"}))


def reworded(settings: Mapping[str, Any]) -> LocalSuite:
    return LocalSuite(RewordedSettings.model_validate({**settings, "name": "webshop"}))
