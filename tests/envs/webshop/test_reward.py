"""WebShop's reward by hand-worked cases: each branch of r_type, attributes, options, price, and the whole."""

import pytest

from bestofq_sites.webshop.products import Option, Product, ShopGoal
from bestofq_sites.webshop.reward import RewardFunction, RewardParts

WANTED = Product(
    id="wanted",
    name="Acme Linen Shirt",
    query="dress shirts",
    category=("Clothing", "Men", "Shirts"),
    price=25.0,
    attributes=("machine wash", "button closure"),
    options=(Option(name="color", values=("red", "blue")), Option(name="size", values=("small", "large"))),
)
GOAL = ShopGoal(
    id="goal",
    product_id="wanted",
    instruction="",
    attributes=("machine wash", "button closure"),
    options=(("color", "red"), ("size", "large")),
    price_limit=30.0,
)
RIGHT = {"color": "red", "size": "large"}


def other(**fields: object) -> Product:
    """The wanted product under another id, changed."""
    return WANTED.model_copy(update={"id": "other"} | fields)


def goal(**fields: object) -> ShopGoal:
    return GOAL.model_copy(update=fields)


def reward(wish: ShopGoal, wanted: Product, bought: Product, chosen: dict[str, str]) -> RewardParts:
    return RewardFunction((wanted, bought))(wish, bought.id, chosen)


def test_the_product_and_options_asked_for_earn_one() -> None:
    parts = reward(GOAL, WANTED, WANTED, RIGHT)
    assert parts == (1.0, 1.0, 1.0, 1.0, 1.0)
    assert parts.total == 1.0


def test_each_part_is_worth_one_fifth_here() -> None:
    """Two attributes, two options and the price: Eq. 1's denominator is 5."""
    assert reward(GOAL, WANTED, other(attributes=("machine wash",)), RIGHT).total == 4 / 5
    assert reward(GOAL, WANTED, WANTED, {"size": "large"}).total == 4 / 5
    assert reward(GOAL, WANTED, other(price=31.0), RIGHT).total == 4 / 5
    assert reward(GOAL, WANTED, other(attributes=(), price=31.0), {}).total == 0.0


ELSEWHERE = {"query": "hats", "category": ("Clothing", "Women", "Hats")}  # shares one level, and no query


@pytest.mark.parametrize(
    ("wanted_name", "bought_name", "kind", "r_type"),
    [
        ("Acme Linen Shirt", "Shirt", ELSEWHERE, 1.0),  # 1/3 > 0.2: the names alone are enough
        ("ab cd ef gh ij", "ij", ELSEWHERE, 0.5),  # 1/5 is not > 0.2
        ("ab cd ef gh ij", "ij", {"category": ("X",)}, 1.0),  # 1/5, but the same query
        ("ab cd ef gh ij", "ij", {"query": "hats", "category": ("Shirts", "Men")}, 1.0),  # two levels, any order
        ("ab cd ef gh ij", "ij", {"query": "hats", "category": ("Men", "Men", "X")}, 0.5),  # one level, twice
        ("ab cd ef gh ij kl mn op qr st uv", "uv", {}, 0.1),  # 1/11 < 0.1, though query and category match
        ("ab cd ef gh ij kl mn op qr st", "st", ELSEWHERE, 0.5),  # 1/10 is not < 0.1
        ("Acme Linen Shirt", "Wool Hat", {}, 0.0),  # nothing shared, though query and category match
        ("The 500 ml", "Wool Hat 500", {}, 0.0),  # `ml` is a noun
        ("The 500", "Wool Hat", ELSEWHERE, 0.5),  # no noun: 0.2, which is not > 0.2
        ("The 500", "Wool Hat", {}, 1.0),
        ("shirt shirt shirt shirt shirt hat", "shirt", ELSEWHERE, 0.5),  # 1 distinct of 6: 0.17
    ],
)
def test_type(wanted_name: str, bought_name: str, kind: dict[str, object], r_type: float) -> None:
    wanted = WANTED.model_copy(update={"name": wanted_name})
    parts = reward(GOAL, wanted, other(name=bought_name, **kind), RIGHT)
    assert parts == (r_type, 1.0, 1.0, 1.0, r_type)
    assert (parts.total == 1.0) == (r_type == 1.0)


@pytest.mark.parametrize(
    ("wanted", "fields", "matches"),
    [
        ("essential oils", {"attributes": ("essential oil",)}, True),  # ratio 96
        ("tea tree", {"attributes": ("tea bag",)}, False),  # ratio 67
        ("easy carry", {"attributes": ("Carry, EASY!",)}, True),  # case, order and punctuation
        ("gold", {"attributes": ("rose gold",)}, True),  # one set within the other: 100
        ("long lasting", {"name": "Acme Long Lasting Shirt"}, True),
        ("long lasting", {"bullets": ("Very soft", "Long lasting colour")}, True),
        ("soft long", {"bullets": ("Very soft", "Long lasting colour")}, True),  # across two bullets, as published
        ("long lasting", {"description": "A LONG LASTING shirt."}, True),
        ("long lasting", {"description": "Lasting long."}, False),  # in a text only word for word
    ],
)
def test_attribute(wanted: str, fields: dict[str, object], matches: bool) -> None:
    bought = other(**{"attributes": ()} | fields)
    assert reward(goal(attributes=(wanted,)), WANTED, bought, RIGHT).r_att == float(matches)


@pytest.mark.parametrize(
    ("wanted", "chosen", "r_option"),
    [
        ([("size", "large")], {"size": "large"}, 1.0),
        ([("size", "large")], {"size": "small"}, 0.0),
        ([("size", "large")], {"size": "x-large"}, 0.0),  # `x large` and `size large`: ratio 71
        ([("size", "large")], {"fit": "large"}, 1.0),  # the value counts, under whatever name it was chosen
        ([("color", "red")], {"color": "cherry red"}, 1.0),  # both are `red`
        ([("color", "navy blue")], {"color": "sky blue"}, 1.0),  # chosen: `blue`, a subset of `color navy blue`
        ([("color", "red")], {"color": "blue"}, 0.0),
        ([("color", "red"), ("frame", "red")], {"color": "red"}, 1.0),  # one choice may serve two options
        ([("color", "red")], {"color": "red", "frame": "dark red"}, 1.0),  # two choices count once
        ([("color", "red"), ("size", "large")], {"size": "large"}, 0.5),
        ([("scent", "tea tree")], {"scent": "tee tree"}, 0.0),  # one letter off: `scent tea` and `tee`, ratio 73
        ([("style", "10 x 12 inch | framed")], {"style": "10 X 12 inch framed"}, 1.0),
        ([("size", "standard")], {"size": "standard"}, 0.0),  # as published: holds `tan`, is compared as `tan`
        ([("color", "dark red")], {"color": "dark teal"}, 1.0),  # as published: both are `dark`
        ([("color", "camouflage")], {"color": "camouflage"}, 0.0),  # as published: chosen, it is `camo`
        ([("", "standard")], {"size": "standard"}, 1.0),  # as a person wrote it, it is cut like what is chosen
        ([], {"size": "large"}, 1.0),
    ],
)
def test_options(wanted: list[tuple[str, str]], chosen: dict[str, str], r_option: float) -> None:
    assert reward(goal(options=tuple(wanted)), WANTED, WANTED, chosen).r_option == r_option


@pytest.mark.parametrize(("price", "r_price"), [(29.99, 1.0), (30.0, 1.0), (30.01, 0.0)])
def test_price_may_equal_the_limit(price: float, r_price: float) -> None:
    assert reward(GOAL, WANTED, other(price=price), RIGHT).r_price == r_price


def test_stop_words_colours_and_sizes_are_no_nouns() -> None:
    """Of `Set of 6 Extra Soft Blue Bath Towels, 70x140cm` the nouns are set, bath, towels: one of three is shared."""
    wanted = WANTED.model_copy(update={"name": "Set of 6 Extra Soft Blue Bath Towels, 70x140cm"})
    assert reward(GOAL, wanted, other(name="Bath Mat", **ELSEWHERE), RIGHT).r_type == 1.0
    assert reward(GOAL, wanted, other(name="6 of Extra Soft Blue 70x140cm", **ELSEWHERE), RIGHT).r_type == 0.0


def test_white_space_that_pages_do_not_show_is_compared_as_published() -> None:
    """Upstream drops U+00A0 of a chosen value, and writes that of the goal's as Python does, `\\xa0`."""
    strange = WANTED.model_copy(update={"published_values": (("10 cm wide", "10\xa0cm wide"),)})
    sized = goal(options=(("size", "10 cm wide"),))
    assert reward(sized, strange, strange, {"size": "10 cm wide"}).r_option == 0.0  # `10cm wide`, `10 xa0cm wide`
    assert reward(sized, WANTED, WANTED, {"size": "10 cm wide"}).r_option == 1.0
