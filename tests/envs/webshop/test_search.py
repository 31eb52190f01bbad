"""The shop's search: what is found, in which order, and that many threads may search at once."""

import pytest

from bestofq_sites.webshop.products import Option, Product
from bestofq_sites.webshop.search import SearchIndex


def product(id: str, name: str, **fields: object) -> Product:
    return Product.model_validate(
        {"id": id, "name": name, "query": "thing", "category": ("Home",), "price": 5.0, **fields}
    )


LAMP = product("lamp", "Brass desk lamp", query="table lamps", category=("Home", "Lighting"))
SHIRT = product("shirt", "Linen shirt", options=(Option(name="color", values=("navy blue", "ecru")),))
MUG = product("mug", "Mug", description="Keeps coffee warm.", bullets=("Dishwasher safe", "350 ml"))
SHOP = SearchIndex([LAMP, SHIRT, MUG])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("desk", LAMP),  # name
        ("TABLE-lamps!", LAMP),  # query, whatever the case and the punctuation
        ("lighting", LAMP),  # category
        ("ecru", SHIRT),  # option value
        ("coffee", MUG),  # description
        ("350", MUG),  # a bullet that is not the first
    ],
)
def test_each_part_of_a_product_is_found(query: str, found: Product) -> None:
    assert SHOP.search(query) == [found]


@pytest.mark.parametrize("query", ["lamps", "lighting", "350"])  # query, category, a bullet that is not the first
def test_upstreams_index_lacks_query_category_and_later_bullets(query: str) -> None:
    assert SearchIndex([LAMP, SHIRT, MUG], "upstream").search(query) == []


def test_equal_scores_keep_catalogue_order_up_to_the_limit() -> None:
    shop = SearchIndex(product(str(i), "same words") for i in range(120))
    assert [p.id for p in shop.search("words")] == [str(i) for i in range(50)]
    assert [p.id for p in shop.search("words", limit=3)] == ["0", "1", "2"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "zeppelin"])
def test_nothing_to_look_for_finds_nothing(query: str) -> None:
    assert SHOP.search(query) == []
