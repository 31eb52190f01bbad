"""The shop's pages, as in WebShop (Yao et al. 2022, 3.1): search, results of ten, items, sub-pages, and Buy Now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from bestofq_sites.local_site.page import Button, Field, Form, Line, Link, Page
from bestofq_sites.webshop.products import Catalogue, Product
from bestofq_sites.webshop.views import (
    SECTIONS,
    Bought,
    Detail,
    Item,
    ShopResults,
    Start,
    View,
    choose,
    from_url,
    to_url,
)

PAGE_SIZE = 10
TITLE = "WebShop"
BUY = "Buy Now"  # how the name of the buying button begins
Search = Callable[[str], Sequence[Product]]
"""A query → all products found, best first."""

NOT_FOUND = Page(TITLE, ((TITLE,), ("There is no such page in this shop.",)), missing=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShopVisit:
    bought: Item | None = None


class Shop:
    """Products, their search, and what the shop answers (`local_site.rules.Server`)."""

    def __init__(self, catalogue: Catalogue, search: Search) -> None:
        """`search` runs once for each query, and its results stay in their order."""
        self.catalogue = catalogue
        self.results = lru_cache(10_000)(search)

    def shown(self, view: ShopResults) -> Sequence[Product]:
        return self.results(view.query)[(view.page - 1) * PAGE_SIZE : view.page * PAGE_SIZE]

    def address(self, url: str) -> str | None:
        view = from_url(url, self.catalogue)
        return None if view is None else to_url(view)

    def view(self, visit: ShopVisit, url: str) -> View | None:
        """What stands at an address, None where nothing does; after the purchase nothing but thanks."""
        return from_url(url, self.catalogue) if visit.bought is None else Bought(item=visit.bought)

    def get(self, visit: ShopVisit, url: str) -> tuple[ShopVisit, Page]:
        """The page at an address; to look at it changes nothing."""
        view = self.view(visit, url)
        return visit, NOT_FOUND if view is None else self.page(view)

    def post(self, visit: ShopVisit, url: str, sent: Mapping[str, str]) -> tuple[ShopVisit, str]:
        """Buy the item of an address, once."""
        item = from_url(url, self.catalogue)
        if visit.bought is None and isinstance(item, Item):
            visit = ShopVisit(bought=item)
        return visit, url if visit.bought is None else to_url(Bought(item=visit.bought))

    def page(self, view: View) -> Page:
        match view:
            case Start():
                line = Field("q", "Search", kind="search"), Button("Search")
                return Page(TITLE, ((TITLE,), Form("/search", (line,), numbered=False)))
            case ShopResults():
                return self._results_page(view)
            case Item():
                return self._item_page(view)
            case Detail():
                return self._detail_page(view)
            case Bought():
                return Page(TITLE, (("Thank you for shopping with us!",),))

    def _results_page(self, view: ShopResults) -> Page:
        found = self.results(view.query)
        last = max(1, -(-len(found) // PAGE_SIZE))
        products = ((_link(link_name(product), Item(product.id, view)),) for product in self.shown(view))
        before = [_link("< Prev", replace(view, page=view.page - 1))] if view.page > 1 else []
        after = [_link("Next >", replace(view, page=view.page + 1))] if view.page < last else []
        lines: list[Line] = [
            (_link("Back to Search", Start()),),
            (f"Page {view.page} of {last} (Total results: {len(found)})",),
            *products,
            (*before, *after),
        ]
        return Page(f"{TITLE}: results", tuple(line for line in lines if line))

    def _item_page(self, view: Item) -> Page:
        product = self.catalogue[view.product_id]
        chosen = dict(view.chosen)
        lines: list[Line] = [_ways_back(view.results), (product.name,), (f"Price: {price(product)}",)]
        for option in product.options:
            values = (
                Link(
                    value,
                    to_url(choose(view, product, option.name, value)),
                    role="radio",
                    checked=chosen.get(option.name) == value,
                )
                for value in option.values
            )
            lines.append((f"{option.name}:", *values))
        about = (_link(section.capitalize(), Detail(section, view)) for section in SECTIONS)
        return Page(f"{TITLE}: item", (*lines, (*about, Button(buy_name(product, view), to_url(view)))))

    def _detail_page(self, view: Detail) -> Page:
        product = self.catalogue[view.item.product_id]
        body = {
            "description": (product.description,),
            "features": product.bullets,
            "reviews": product.reviews or ("No reviews yet.",),
        }[view.section]
        return Page(f"{TITLE}: {view.section}", (_ways_back(view.item), *((line,) for line in body if line)))


def _link(name: str, view: View) -> Link:
    return Link(name, to_url(view))


def _ways_back(view: View) -> Line:
    return _link("Back to Search", Start()), _link("< Prev", view)


def buy_name(product: Product, view: Item) -> str:
    """Buy Now says what would be bought, as a button that a screen reader reads should."""
    chosen = ", ".join(value for _, value in view.chosen)
    return f"{BUY} {chosen}: {link_name(product)}" if chosen else f"{BUY}: {link_name(product)}"


def link_name(product: Product) -> str:
    return f"{price(product)} {product.name}"


def price(product: Product) -> str:
    return f"${product.price:.2f}"
