"""Where a visitor of the shop can be, as values and as addresses."""

from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

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
