"""Goals, hand-worked: sentences, limits, and order; and the three kinds of split."""

import random

import pytest

from bestofq.core.errors import InputError
from bestofq.core.observation import Split
from bestofq.envs.splits import SHARES, split_of
from bestofq_sites.webshop.goals import NO_LIMIT, human_goals, synthetic_goals
from bestofq_sites.webshop.products import Instruction, Option, Product, ShopGoal
from bestofq_sites.webshop.settings import Splits
from tests.envs.webshop.parts import goals_of, products_of


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


def test_what_people_wrote_becomes_goals_without_option_names() -> None:
    written = {
        "p": [
            Instruction(
                instruction="i want a red shirt.", instruction_attributes=("linen",), instruction_options=("red",)
            ),
            Instruction(instruction="any shirt", instruction_attributes=(), instruction_options=()),
            Instruction(instruction="a small one", instruction_attributes=("linen", "soft"), instruction_options=()),
        ],
        "q": [Instruction(instruction="not in this shop", instruction_attributes=("soft",), instruction_options=())],
        "dear": [Instruction(instruction="the dear one", instruction_attributes=("soft",), instruction_options=())],
    }
    goals = {goal.id: goal for goal in human_goals([product("p"), product("dear", price=990.0)], written, seed=0)}
    assert set(goals) == {"p-h0", "p-h2", "dear-h0"}
    first = goals["p-h0"]
    assert first.instruction == f"i want a red shirt, and price lower than {first.price_limit:.2f} dollars"
    assert (first.options, first.attributes) == ((("", "red"),), ("linen",))
    assert first.price_limit in (40.0, 50.0, 60.0)
    assert (goals["dear-h0"].instruction, goals["dear-h0"].price_limit) == ("the dear one", NO_LIMIT)
