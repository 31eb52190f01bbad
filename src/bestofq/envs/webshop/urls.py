"""Views as relative URLs and back: the site's routes, and `Observation.url` of the text environment."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from bestofq.envs.webshop.pages import SECTIONS, Bought, Detail, Item, Results, Start, View
from bestofq.envs.webshop.products import Catalogue

OPTION = "option."  # prefix of the query parameters that hold chosen options


def to_url(view: View) -> str:
    """A path with its query, to be put behind the shop's root."""
    match view:
        case Start():
            return "/"
        case Results():
            page = {} if view.page == 1 else {"page": view.page}  # as a browser writes the search form's
            return "/search?" + urlencode({"q": view.query, **page})
        case Item():
            return f"/item/{quote(view.product_id)}?" + _item_query(view)
        case Detail():
            return f"/item/{quote(view.item.product_id)}/{view.section}?" + _item_query(view.item)
        case Bought():
            return "/thanks"


def buy_url(item: Item) -> str:
    """Where Buy Now is posted."""
    return f"/buy/{quote(item.product_id)}?" + _item_query(item)


def _item_query(item: Item) -> str:
    chosen = {OPTION + name: value for name, value in item.chosen}
    return urlencode({"q": item.results.query, "page": item.results.page, **chosen})


def from_url(url: str, catalogue: Catalogue) -> View | None:
    """The view a URL stands for; None when the shop has no such page. Buying is not reached by a URL."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    page = query.get("page", "1")
    results = Results(
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
