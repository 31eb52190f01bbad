"""The shop's pages, as in WebShop (Yao et al. 2022, 3.1): search, results of ten, items, sub-pages, and Buy Now.

Where a visitor can be is a value (`View`) and an address.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from bestofq_sites.local_site.page import Button, Field, Form, Line, Link, Page
from bestofq_sites.webshop.products import Catalogue, Product

SECTIONS = ("description", "features", "reviews")
OPTION = "option."  # prefix of the query parameters that hold chosen options


@dataclass(frozen=True, slots=True)
class Start:
    """The page with the search box."""


@dataclass(frozen=True, slots=True)
class ShopResults:
    query: str
    page: int = 1


@dataclass(frozen=True, slots=True)
class Item:
    product_id: str
    results: ShopResults
    chosen: tuple[tuple[str, str], ...] = ()  # (option name, value), in the order the page lists the options


@dataclass(frozen=True, slots=True)
class Detail:
    """A sub-page of an item: `section` is description, features or reviews."""

    section: str
    item: Item


@dataclass(frozen=True, slots=True)
class Bought:
    item: Item


View = Start | ShopResults | Item | Detail | Bought


def choose(view: Item, product: Product, name: str, value: str) -> Item:
    """The item page after an option is chosen; choosing again in the same group replaces it."""
    chosen = {**dict(view.chosen), name: value}
    return replace(view, chosen=tuple((o.name, chosen[o.name]) for o in product.options if o.name in chosen))


def to_url(view: View) -> str:
    """A path with its query, to be put behind the shop's root."""
    match view:
        case Start():
            return "/"
        case ShopResults():
            page = {} if view.page == 1 else {"page": view.page}  # as a browser writes the search form's
            return "/search?" + urlencode({"q": view.query, **page})
        case Item():
            return f"/item/{quote(view.product_id)}?" + _item_query(view)
        case Detail():
            return f"/item/{quote(view.item.product_id)}/{view.section}?" + _item_query(view.item)
        case Bought():
            return "/thanks"


def _item_query(item: Item) -> str:
    chosen = {OPTION + name: value for name, value in item.chosen}
    return urlencode({"q": item.results.query, "page": item.results.page, **chosen})


def from_url(url: str, catalogue: Catalogue) -> View | None:
    """The view at a URL. None if the shop has no such page. No URL buys."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    page = query.get("page", "1")
    results = ShopResults(
        query=" ".join(query.get("q", "").split()), page=int(page) if page.isdecimal() and page != "0" else 1
    )
    match [part for part in parts.path.split("/") if part]:
        case []:
            return Start()
        case ["search"]:
            return results
        case ["item", product_id, *rest] if product_id in catalogue and len(rest) <= 1:
            options = {o.name: o.values for o in catalogue[product_id].options}
            chosen = tuple(
                (name, query[OPTION + name]) for name in options if query.get(OPTION + name) in options[name]
            )
            item = Item(product_id=product_id, results=results, chosen=chosen)
            if not rest:
                return item
            return Detail(section=rest[0], item=item) if rest[0] in SECTIONS else None
        case _:
            return None


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
