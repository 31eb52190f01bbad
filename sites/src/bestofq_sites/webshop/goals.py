"""WebShop's goals (Yao et al. 2022): synthetic, one per combination of a product's options; or what people wrote.

The sentence is the product's instruction, its options and the price limit:

    find me a linen shirt with color: red, and size: large, and price lower than 40.00 dollars

The limit is the larger of two prices drawn from the first four multiples of 10 dollars above the product's price, up to
990. A product with fewer than two such prices has none. Upstream draws it unseeded, here it has a `seed`. The order is
upstream's: shuffled with 233.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bestofq_sites.webshop.products import Instruction, Product, ShopGoal

NO_LIMIT = 1_000_000.0  # USD; upstream's stand-in for a goal without a price limit
_LIMITS = range(10, 1000, 10)  # USD
_ORDER_SEED = 233


def synthetic_goals(products: Iterable[Product], *, seed: int) -> tuple[ShopGoal, ...]:
    """A goal for every combination of options of every product that has an instruction, in upstream's order."""
    goals = (goal for product in products if product.instruction is not None for goal in _goals(product, seed))
    return _in_order(goals)


def human_goals(
    products: Iterable[Product], written: Mapping[str, Sequence[Instruction]], *, seed: int
) -> tuple[ShopGoal, ...]:
    """A goal for each instruction with attributes, `written` for one of `products`, in upstream's order. What a person
    asked for has no option names: an option is compared by its value alone."""
    return _in_order(
        _human_goal(product, f"{product.id}-h{number}", instruction, seed)
        for product in products
        for number, instruction in enumerate(written.get(product.id, ()))
        if instruction.instruction_attributes
    )


def _human_goal(product: Product, name: str, written: Instruction, seed: int) -> ShopGoal:
    limit = price_limit(product.price, random.Random(f"limit-{seed}-{name}"))
    return ShopGoal(
        id=name,
        product_id=product.id,
        instruction=" ".join(written.instruction.split()).strip(".") + _price_text(limit),
        attributes=written.instruction_attributes,
        options=tuple(("", value) for value in written.instruction_options),
        price_limit=limit,
    )


def _in_order(goals: Iterable[ShopGoal]) -> tuple[ShopGoal, ...]:
    shuffled = list(goals)
    random.Random(_ORDER_SEED).shuffle(shuffled)
    return tuple(shuffled)


def _goals(product: Product, seed: int) -> Iterator[ShopGoal]:
    limit = price_limit(product.price, random.Random(f"limit-{seed}-{product.id}"))
    options = sorted(product.options, key=lambda option: option.name)
    for number, values in enumerate(itertools.product(*(option.values for option in options))):
        pairs = tuple((option.name, value) for option, value in zip(options, values, strict=True))
        option_text = " with " + ", and ".join(f"{name}: {value}" for name, value in pairs) if pairs else ""
        yield ShopGoal(
            id=f"{product.id}-{number}",
            product_id=product.id,
            instruction=f"{product.instruction}{option_text}{_price_text(limit)}",
            attributes=product.instruction_attributes,
            options=pairs,
            price_limit=limit,
        )


def _price_text(limit: float) -> str:
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def price_limit(price: float, rng: random.Random) -> float:
    """USD, as the module says; `NO_LIMIT` where there are fewer than two above the price."""
    above = [limit for limit in _LIMITS if limit > price][:4]
    return float(max(rng.sample(above, 2))) if len(above) >= 2 else NO_LIMIT
