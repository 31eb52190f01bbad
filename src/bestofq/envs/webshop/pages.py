"""The shop's pages as values: a view says where a visitor is, a page what stands there.

One page model serves both the web site (`site.py` writes it as HTML) and the text environment (`text.py` writes it as
the observation a browser would make of that HTML). As in WebShop (Yao et al. 2022, 3.1): search, results of ten,
item pages with options, sub-pages, and Buy Now.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bestofq.envs.webshop.products import Catalogue, Product

PAGE_SIZE = 10
RESULT_LIMIT = 50
TITLE = "WebShop"
BUY = "Buy Now"  # how the name of the buying button begins


class Search(Protocol):
    """`search.SearchIndex`, or anything that ranks products for a query."""

    def search(self, query: str, limit: int = RESULT_LIMIT) -> list[Product]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The page with the search box."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    query: str
    page: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    product_id: str
    results: Results
    chosen: tuple[tuple[str, str], ...] = ()  # (option name, value), in the order the page lists the options


@dataclass(frozen=True, kw_only=True, slots=True)
class Detail:
    """A sub-page of an item: `section` is description, features or reviews."""

    section: str
    item: Item


@dataclass(frozen=True, kw_only=True, slots=True)
class Bought:
    item: Item


View = Start | Results | Item | Detail | Bought


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Leads to a view; `role` is link, radio (an option) or button (Buy Now)."""

    name: str
    to: View
    role: str = "link"
    checked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchBox:
    """A search field; submitting it leads to the results for its content."""

    name: str = "Search"


Node = str | Link | SearchBox


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Lines of text and interactive nodes, in reading order; the first line is the heading."""

    title: str
    lines: tuple[tuple[Node, ...], ...]


class Shop:
    """Products, their search, and the page of every view.

    `shuffle` reorders the products of each results page at random: only for training pages, so that a model cannot
    learn to take the first result unread.
    """

    def __init__(self, catalogue: Catalogue, search: Search, *, shuffle: random.Random | None = None) -> None:
        self.catalogue = catalogue
        self.search = search
        self._shuffle = shuffle
        self._ranked: dict[str, Sequence[Product]] = {}

    def results(self, query: str) -> Sequence[Product]:
        """All products found for a query, best first; the same for as long as the shop lives."""
        if query not in self._ranked:
            if len(self._ranked) >= 10_000:
                self._ranked.clear()
            found = self.search.search(query, RESULT_LIMIT)
            if self._shuffle is not None:
                pages = [found[i : i + PAGE_SIZE] for i in range(0, len(found), PAGE_SIZE)]
                found = [product for page in pages for product in self._shuffle.sample(page, len(page))]
            self._ranked[query] = found
        return self._ranked[query]

    def shown(self, view: Results) -> Sequence[Product]:
        """The products of one results page."""
        return self.results(view.query)[(view.page - 1) * PAGE_SIZE : view.page * PAGE_SIZE]

    def page(self, view: View) -> Page:
        match view:
            case Start():
                return Page(title=TITLE, lines=((TITLE,), (SearchBox(), Link(name="Search", to=view, role="button"))))
            case Results():
                return self._results_page(view)
            case Item():
                return self._item_page(view)
            case Detail():
                return self._detail_page(view)
            case Bought():
                return Page(title=TITLE, lines=(("Thank you for shopping with us!",),))

    def _results_page(self, view: Results) -> Page:
        found = self.results(view.query)
        last = max(1, -(-len(found) // PAGE_SIZE))
        lines: list[tuple[Node, ...]] = [
            (Link(name="Back to Search", to=Start()),),
            (f"Page {view.page} of {last} (Total results: {len(found)})",),
        ]
        lines += [
            (Link(name=link_name(product), to=Item(product_id=product.id, results=view)),)
            for product in self.shown(view)
        ]
        turns: list[Node] = []
        if view.page > 1:
            turns.append(Link(name="< Prev", to=replace(view, page=view.page - 1)))
        if view.page < last:
            turns.append(Link(name="Next >", to=replace(view, page=view.page + 1)))
        if turns:
            lines.append(tuple(turns))
        return Page(title=f"{TITLE}: results", lines=tuple(lines))

    def _item_page(self, view: Item) -> Page:
        product = self.catalogue[view.product_id]
        chosen = dict(view.chosen)
        lines: list[tuple[Node, ...]] = [
            (Link(name="Back to Search", to=Start()), Link(name="< Prev", to=view.results)),
            (product.name,),
            (f"Price: {price(product)}",),
        ]
        for option in product.options:
            values = (
                Link(
                    name=value,
                    to=choose(view, product, option.name, value),
                    role="radio",
                    checked=chosen.get(option.name) == value,
                )
                for value in option.values
            )
            lines.append((f"{option.name}:", *values))
        lines.append(
            (
                *(Link(name=s.capitalize(), to=Detail(section=s, item=view)) for s in SECTIONS),
                Link(name=buy_name(product, view), to=Bought(item=view), role="button"),
            )
        )
        return Page(title=f"{TITLE}: item", lines=tuple(lines))

    def _detail_page(self, view: Detail) -> Page:
        product = self.catalogue[view.item.product_id]
        head = (Link(name="Back to Search", to=Start()), Link(name="< Prev", to=view.item))
        body = {
            "description": (product.description,),
            "features": product.bullets,
            "reviews": product.reviews or ("No reviews yet.",),
        }[view.section]
        return Page(title=f"{TITLE}: {view.section}", lines=(head, *((line,) for line in body if line)))


SECTIONS = ("description", "features", "reviews")


def choose(view: Item, product: Product, name: str, value: str) -> Item:
    """The item page after an option is chosen; choosing again in the same group replaces it."""
    chosen = {**dict(view.chosen), name: value}
    return replace(view, chosen=tuple((o.name, chosen[o.name]) for o in product.options if o.name in chosen))


def buy_name(product: Product, view: Item) -> str:
    """Buy Now says what would be bought, as a button that a screen reader reads should."""
    chosen = ", ".join(value for _, value in view.chosen)
    return f"{BUY} {chosen}: {link_name(product)}" if chosen else f"{BUY}: {link_name(product)}"


def link_name(product: Product) -> str:
    """What a results page calls a product."""
    return f"{price(product)} {product.name}"


def price(product: Product) -> str:
    return f"${product.price:.2f}"
