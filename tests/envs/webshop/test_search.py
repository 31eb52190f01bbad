"""The shop's search: what is found, in which order, and that many threads may search at once."""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bestofq.core.errors import DataError
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


@pytest.mark.parametrize(
    ("query", "found"), [("desk", LAMP), ("ecru", SHIRT), ("color", SHIRT), ("coffee", MUG), ("dishwasher", MUG)]
)
def test_upstreams_index_finds_name_description_first_bullet_and_options(query: str, found: Product) -> None:
    assert SearchIndex([LAMP, SHIRT, MUG], "upstream").search(query) == [found]


def test_more_shared_words_stand_higher() -> None:
    shop = SearchIndex([product("1", "red cup"), product("2", "red wool hat"), product("3", "green wool scarf")])
    assert [p.id for p in shop.search("red wool hat")] == ["2", "1", "3"]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    shop = SearchIndex([*(product(f"cup{i}", f"cup {i}") for i in range(9)), product("vase", "vase blue")])
    assert shop.search("cup vase")[0].id == "vase"


def test_equal_scores_keep_catalogue_order_up_to_the_limit() -> None:
    shop = SearchIndex(product(str(i), "same words") for i in range(120))
    assert [p.id for p in shop.search("words")] == [str(i) for i in range(50)]
    assert [p.id for p in shop.search("words", limit=3)] == ["0", "1", "2"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "zeppelin"])
def test_nothing_to_look_for_finds_nothing(query: str) -> None:
    assert SHOP.search(query) == []


def test_an_empty_shop_is_refused() -> None:
    with pytest.raises(DataError, match="at least 1 product"):
        SearchIndex([])


def test_threads_find_what_one_thread_finds(capfd: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(0)
    words = [f"w{i}" for i in range(60)]
    shop = SearchIndex(product(str(i), " ".join(rng.choices(words, k=8))) for i in range(300))
    queries = [" ".join(rng.choices(words, k=4)) for _ in range(200)]
    alone = [shop.search(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shop.search, queries)) == alone
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("before", ["", "import jax; "])
def test_searching_starts_no_jax(before: str, tmp_path: Path) -> None:
    """bm25s would, where it is installed."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    (tmp_path / "jax" / "lax.py").write_text("print('started')")
    code = f"{before}import bestofq_sites.webshop.search, sys; print('jax' in sys.modules)"
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{bool(before)}\n"
