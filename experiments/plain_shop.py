"""The shop with WebShop's own button, which says "Buy Now" and nothing else: no option, price or title.

    bestofq eval --set suite.name=experiments.plain_shop:make_suite

Fields of the shop's own settings can be set as there, such as `suite.only`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from bestofq_sites.local_site.page import Button, Page
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.webshop.pages import BUY, Item, Shop
from bestofq_sites.webshop.settings import WebShopSettings
from bestofq_sites.webshop.suite import WebShop, synthetic_suite


class PlainShop(Shop):
    """The shop's pages, but for the button."""

    def _item_page(self, view: Item) -> Page:
        page = super()._item_page(view)
        *before, last = page.parts
        assert isinstance(last, tuple)
        line = tuple(replace(each, name=BUY) if isinstance(each, Button) else each for each in last)
        return replace(page, parts=(*before, line))


class PlainSettings(WebShopSettings):
    rules: ClassVar[str] = "experiments.plain_shop:shop"


def shop(settings: PlainSettings) -> WebShop:
    suite = synthetic_suite(settings=settings)
    suite.name, suite.make_shop = "webshop-plain", PlainShop
    return suite


def make_suite(settings: Mapping[str, Any]) -> LocalSuite:
    return LocalSuite(PlainSettings.model_validate({**settings, "name": "webshop"}))
