"""Goals, hand-worked: sentences, limits, and order; and the three kinds of split."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from bestofq.core.errors import DataError, InputError
from bestofq.core.observation import Split
from bestofq.envs.splits import SHARES, split_of
from bestofq_sites.webshop.goals import NO_LIMIT, human_goals, synthetic_goals
from bestofq_sites.webshop.products import Catalogue, Instruction, Option, Product, ShopGoal
from bestofq_sites.webshop.search import SearchIndex
from bestofq_sites.webshop.settings import Splits, WebShopSettings
from bestofq_sites.webshop.source import load_catalogue
from bestofq_sites.webshop.suite import WebShop, real_suite


def product(id: str, **fields: object) -> Product:
    required = {
        "id": id,
        "name": "Acme Shirt",
        "query": "shirts",
        "category": ("Clothing", "Shirts"),
        "price": 25.0,
        "instruction": "find me a shirt",
        "instruction_attributes": ("linen",),
    }
    return Product.model_validate(required | fields)


SIZE = Option(name="size", values=("s", "m", "l"))
COLOUR = Option(name="color", values=("red", "blue"))


def test_a_goal_per_combination_with_option_names_in_order() -> None:
    goals = synthetic_goals([product("p", options=(SIZE, COLOUR))], seed=0)
    limit = goals[0].price_limit
    assert {goal.options for goal in goals} == {(("color", c), ("size", s)) for c in COLOUR.values for s in SIZE.values}
    first = next(goal for goal in goals if goal.id == "p-0")
    assert first.options == (("color", "red"), ("size", "s"))
    assert first.instruction == (
        f"find me a shirt with color: red, and size: s, and price lower than {limit:.2f} dollars"
    )
    assert {goal.price_limit for goal in goals} == {limit}


def test_a_product_without_options_makes_one_goal_and_without_instruction_none() -> None:
    [goal] = synthetic_goals([product("p"), product("q", instruction=None)], seed=0)
    assert goal.instruction == f"find me a shirt, and price lower than {goal.price_limit:.2f} dollars"
    assert goal.options == ()


@pytest.mark.parametrize(
    ("price", "limits"),
    [
        (25.0, {40.0, 50.0, 60.0}),  # drawn from 30, 40, 50, 60; the larger of two is never the first
        (30.0, {50.0, 60.0, 70.0}),  # above the price, not at it
        (965.0, {980.0, 990.0}),  # drawn from 970, 980, 990
        (979.0, {990.0}),
        (980.0, {NO_LIMIT}),  # one limit is left, two are needed
    ],
)
def test_price_limits(price: float, limits: set[float]) -> None:
    goals = [synthetic_goals([product("p", price=price)], seed=seed)[0] for seed in range(60)]
    assert {goal.price_limit for goal in goals} == limits
    assert all((goal.instruction == "find me a shirt") == (goal.price_limit == NO_LIMIT) for goal in goals)


def test_the_order_is_the_published_shuffle() -> None:
    goals = synthetic_goals([product(f"p{i}") for i in range(40)], seed=7)
    expected = [f"p{i}-0" for i in range(40)]
    random.seed(233)
    random.shuffle(expected)
    assert [goal.id for goal in goals] == expected


SPLITS: tuple[Split, ...] = ("train", "dev", "test")


@pytest.mark.parametrize("seed", [0, 2026])
def test_no_product_and_so_no_goal_is_in_two_splits(seed: int) -> None:
    shop = [product(f"B{i:09d}", options=(COLOUR,)) for i in range(2000)]
    goals = synthetic_goals(shop, seed=seed)
    products = {split: {*products_of(split, shop, seed=seed)} for split in SPLITS}
    wanted = {split: goals_of(split, goals, seed=seed) for split in SPLITS}

    assert sum(len(ids) for ids in products.values()) == len(set.union(*products.values())) == len(shop)
    assert sum(len(part) for part in wanted.values()) == len({g.id for part in wanted.values() for g in part}) == 4000
    for split in SPLITS:
        assert {goal.product_id for goal in wanted[split]} == products[split]
        assert len(products[split]) / len(shop) == pytest.approx(SHARES[split], abs=0.03)


def test_a_products_split_depends_on_the_seed_and_on_no_other_product() -> None:
    shop = [product(f"B{i:09d}") for i in range(200)]
    everything = {*products_of("dev", shop, seed=1)}
    assert {*products_of("dev", shop[:50], seed=1)} == everything & {p.id for p in shop[:50]}
    assert [split_of(p.id, 1) for p in shop] != [split_of(p.id, 2) for p in shop]


@pytest.mark.parametrize(
    ("splits", "ends"),
    [
        ("webshop", {"test": (0, 499, 500), "dev": (500, 1499, 1000), "train": (1500, 12_086, 10_587)}),
        ("agent-q", {"test": (0, 1_086, 1_087), "train": (1_087, 12_086, 11_000)}),
    ],
)
def test_the_published_splits_go_by_index(splits: Splits, ends: dict[Split, tuple[int, int, int]]) -> None:
    goals = [
        ShopGoal(id=str(i), product_id="p", instruction="", attributes=(), options=(), price_limit=1.0)
        for i in range(12_087)
    ]
    parts = {split: [int(goal.id) for goal in goals_of(split, goals, splits=splits)] for split in ends}
    assert {split: (ids[0], ids[-1], len(ids)) for split, ids in parts.items()} == ends
    if "dev" not in ends:
        with pytest.raises(InputError, match="has no dev tasks"):
            goals_of("dev", goals, splits=splits)


def wrote(text: str, *attributes: str, options: tuple[str, ...] = ()) -> Instruction:
    return Instruction(instruction=text, instruction_attributes=attributes, instruction_options=options)


def test_what_people_wrote_becomes_goals_without_option_names() -> None:
    red = wrote("i want a red shirt.", "linen", options=("red",))
    written = {
        "p": [red, wrote("any shirt"), wrote("a small one", "linen", "soft")],
        "q": [wrote("not in this shop", "soft")],
        "dear": [wrote("the dear one", "soft")],
    }
    goals = {goal.id: goal for goal in human_goals([product("p"), product("dear", price=990.0)], written, seed=0)}
    assert set(goals) == {"p-h0", "p-h2", "dear-h0"}
    first = goals["p-h0"]
    assert first.instruction == f"i want a red shirt, and price lower than {first.price_limit:.2f} dollars"
    assert (first.options, first.attributes) == ((("", "red"),), ("linen",))
    assert first.price_limit in (40.0, 50.0, 60.0)
    assert (goals["dear-h0"].instruction, goals["dear-h0"].price_limit) == ("the dear one", NO_LIMIT)


LAMP = product("lamp", name="Brass desk lamp", query="table lamps", category=("Home", "Lighting"))
SHIRT = product("shirt", name="Linen shirt", options=(Option(name="color", values=("navy blue", "ecru")),))
MUG = product("mug", name="Mug", description="Keeps coffee warm.", bullets=("Dishwasher safe", "350 ml"))
SHOP = SearchIndex([LAMP, SHIRT, MUG])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("desk", [LAMP]),  # name
        ("TABLE-lamps!", [LAMP]),  # query, whatever the case and the punctuation
        ("lighting", [LAMP]),  # category
        ("ecru", [SHIRT]),  # option value
        ("coffee", [MUG]),  # description
        ("350", [MUG]),  # a bullet that is not the first
        *((nothing, []) for nothing in ("", "   ", "?!", "zeppelin")),
    ],
)
def test_each_part_of_a_named_product_is_found(query: str, found: list[Product]) -> None:
    assert SHOP.search(query) == found


@pytest.mark.parametrize("query", ["lamps", "lighting", "350"])  # query, category, a bullet that is not the first
def test_upstreams_index_lacks_query_category_and_later_bullets(query: str) -> None:
    assert SearchIndex([LAMP, SHIRT, MUG], "upstream").search(query) == []


def test_equal_scores_keep_catalogue_order_up_to_the_limit() -> None:
    shop = SearchIndex(product(str(i), name="same words") for i in range(120))
    assert [p.id for p in shop.search("words")] == [str(i) for i in range(50)]
    assert [p.id for p in shop.search("words", limit=3)] == ["0", "1", "2"]


RECORD = {
    "asin": "B000000001",
    "name": "Acme  Linen Shirt ",
    "query": "Dress Shirts ",
    "product_category": "Clothing › Men › Shirts",
    "pricing": "$1,234.5",
    "full_description": "Soft.\n\nVery soft.",
    "small_description": ["Linen ", "", "Machine wash"],
    "customization_options": {"Color": [{"value": " Black/White", "asin": "x"}, {"value": "Red"}], "Size": None},
    "average_rating": "",
}
ANNOTATION = {
    "attributes": ["machine wash"],
    "instruction": "find me a shirt",
    "instruction_attributes": ["machine wash"],
}


def write(folder: Path, *records: dict[str, object], annotations: object = None) -> Path:
    (folder / "items_shuffle_1000.json").write_text(json.dumps(records))
    entries = {str(r.get("asin")): ANNOTATION for r in records} if annotations is None else annotations
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(entries))
    return folder


def test_a_record_is_read_as_the_published_code_reads_it(tmp_path: Path) -> None:
    [product] = load_catalogue(write(tmp_path, RECORD), seed=0).values()
    assert product.id == "B000000001"
    assert product.name == "Acme Linen Shirt"
    assert product.query == "dress shirts"
    assert product.category == ("Clothing", "Men", "Shirts")
    assert product.price == 1234.5
    assert product.description == "Soft. Very soft."
    assert product.bullets == ("Linen", "Machine wash")
    assert product.options == (Option(name="color", values=("black | white", "red")),)
    assert product.attributes == product.instruction_attributes == ("machine wash",)
    assert product.instruction == "find me a shirt"


def test_a_value_keeps_the_white_space_that_the_reward_compares(tmp_path: Path) -> None:
    sizes = {"Size": [{"value": "10\xa0CM  wide"}, {"value": "12 cm"}]}
    [product] = load_catalogue(write(tmp_path, RECORD | {"customization_options": sizes}), seed=0).values()
    assert product.options == (Option(name="size", values=("10 cm wide", "12 cm")),)
    assert product.published_values == (("10 cm wide", "10\xa0cm  wide"),)


def test_what_a_record_lacks_has_webshops_defaults(tmp_path: Path) -> None:
    bare = RECORD | {"pricing": "", "full_description": None, "small_description": "Linen", "customization_options": ""}
    [product] = load_catalogue(write(tmp_path, bare, annotations={"B000000001": {"attributes": []}}), seed=0).values()
    assert (product.price, product.description, product.bullets, product.options) == (100.0, "", ("Linen",), ())
    assert (product.instruction, product.instruction_attributes) == (None, ())


def test_a_range_of_prices_is_drawn_from_the_seed(tmp_path: Path) -> None:
    ranged = RECORD | {"pricing": "$10.0$20.0"}
    folder = write(tmp_path, ranged, ranged | {"asin": "B000000002"})
    prices = [[product.price for product in load_catalogue(folder, seed=seed).values()] for seed in (0, 0, 1)]
    assert prices[0] == prices[1]
    assert len({*prices[0], *prices[2]}) == 4
    assert all(10.0 <= price <= 20.0 for pair in prices for price in pair)


def test_repeated_and_overlong_ids_are_left_out(tmp_path: Path) -> None:
    records = [RECORD, RECORD | {"name": "Again"}, RECORD | {"asin": "nan"}, RECORD | {"asin": "B0000000011"}]
    [kept] = load_catalogue(write(tmp_path, *records), seed=0).values()
    assert kept.name == "Acme Linen Shirt"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"items_shuffle_1000\.json \(No such file.*\): give the folder that holds"),
        ("[{", "Invalid JSON"),
        ('{"asin": "x"}', "the whole file: Input should be a valid array"),
        ('[{"asin": "x", "query": "y", "product_category": "z"}]', r"1 errors, the first at 0\.name: Field required"),
        ("[]", "holds 0 products"),
        (json.dumps([RECORD | {"pricing": "$cheap"}]), r"B000000001 has the price '\$cheap'"),
        (json.dumps([RECORD | {"pricing": "12"}]), "has the price '12'"),
        (json.dumps([RECORD | {"asin": "B000000009"}]), "no entry for the product B000000009"),
    ],
)
def test_a_missing_or_malformed_file_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        write(tmp_path, RECORD)
        (tmp_path / "items_shuffle_1000.json").write_text(content)
    with pytest.raises(DataError, match=message):
        load_catalogue(tmp_path, seed=0)


def test_the_full_files_give_what_people_wrote_and_agent_qs_split(tmp_path: Path) -> None:
    """The fields that the published code reads of `items_human_ins.json`, and one that it does not."""
    number = 1_090
    ids = [f"B{i:09d}" for i in range(number)]
    records = [RECORD | {"asin": name, "pricing": "$25"} for name in ids]
    (tmp_path / "items_shuffle.json").write_text(json.dumps(records))
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({ids[0]: ANNOTATION}))
    wrote = {
        "instruction": "i need a  black and white shirt.",
        "instruction_attributes": ["machine wash"],
        "instruction_options": ["black | white"],
        "worker_id": "x",
    }
    (tmp_path / "items_human_ins.json").write_text(json.dumps({name: [wrote] for name in ids}))
    suite = real_suite(WebShopSettings(data=tmp_path, seed=0))
    test, train = suite.tasks("test"), suite.tasks("train")
    assert (suite.name, len(test), len(train)) == ("webshop-human", 1_087, 3)
    assert not {task.id for task in test} & {task.id for task in train}
    goal = suite.goals[test[0].id]
    assert goal.instruction.startswith("i need a black and white shirt, and price lower than ")
    first = next(goal for goal in (suite.goals[t.id] for t in [*test, *train]) if goal.product_id == ids[0])
    whole = suite.rewards(first, ids[0], {"color": "black | white"})
    assert (whole.r_type, whole.r_att, whole.r_option, whole.r_price) == (1.0, 1.0, 1.0, 1.0)
    assert suite.rewards(first, ids[0], {"color": "red"}).r_option == 0.0
    with pytest.raises(InputError, match=r"webshop-human split as agent-q has no dev tasks: set suite\.splits"):
        suite.tasks("dev")
    assert len(real_suite(WebShopSettings(data=tmp_path, seed=0, splits="webshop")).tasks("dev")) == 590
    (tmp_path / "items_human_ins.json").unlink()
    with pytest.raises(DataError, match=r"items_human_ins\.json \(No such file.*`-d all`"):
        real_suite(WebShopSettings(data=tmp_path, seed=0))


def goals_of(
    split: Split, goals: Sequence[ShopGoal], *, splits: Splits = "product", seed: int = 0
) -> Sequence[ShopGoal]:
    return WebShop("shop", {}, goals, WebShopSettings(seed=seed, splits=splits)).goals_of(split)


def products_of(split: Split, products: Sequence[Product], *, seed: int) -> Catalogue:
    return WebShop("shop", {p.id: p for p in products}, (), WebShopSettings(seed=seed)).products(split)
