"""WebShop's synthetic goals (Yao et al. 2022): one per combination of a product's options.

The sentence is the product's instruction, its options and the price limit:

    find me a linen shirt with color: red, and size: large, and price lower than 40.00 dollars

The larger of two different prices drawn from the first four multiples of 10 dollars above the product's price (none
past 990) is the limit; a product with fewer than two such prices has none. Upstream draws it unseeded, so that its
limits differ from process to process; here they come from `seed`. The order is upstream's: shuffled with 233.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator

from bestofq.envs.webshop.products import Goal, Product

NO_LIMIT = 1_000_000.0  # USD; upstream's stand-in for a goal without a price limit
_LIMITS = range(10, 1000, 10)  # USD
_ORDER_SEED = 233


def synthetic_goals(products: Iterable[Product], *, seed: int) -> tuple[Goal, ...]:
    """A goal for every combination of options of every product that has an instruction, in upstream's order.

    Its id is `<product>-<number of the combination>`. Its weight is the mean over its attributes of 1 / (goals that
    have the attribute), so that a product with many options is not drawn the more often; 0 without attributes.
    """
    goals = [goal for product in products if product.instruction is not None for goal in _goals(product, seed)]
    frequency = Counter(attribute for goal in goals for attribute in goal.attributes)
    weighted = [goal.model_copy(update={"weight": _weight(goal, frequency)}) for goal in goals]
    random.Random(_ORDER_SEED).shuffle(weighted)
    return tuple(weighted)


def _goals(product: Product, seed: int) -> Iterator[Goal]:
    limit = _price_limit(product, seed)
    price_text = "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"
    options = sorted(product.options, key=lambda option: option.name)
    for number, values in enumerate(itertools.product(*(option.values for option in options))):
        pairs = tuple((option.name, value) for option, value in zip(options, values, strict=True))
        option_text = " with " + ", and ".join(f"{name}: {value}" for name, value in pairs) if pairs else ""
        yield Goal(
            id=f"{product.id}-{number}",
            product_id=product.id,
            instruction=f"{product.instruction}{option_text}{price_text}",
            attributes=product.instruction_attributes,
            options=pairs,
            price_limit=limit,
        )


def _price_limit(product: Product, seed: int) -> float:
    above = [limit for limit in _LIMITS if limit > product.price][:4]
    if len(above) < 2:
        return NO_LIMIT
    return float(max(random.Random(f"limit-{seed}-{product.id}").sample(above, 2)))


def _weight(goal: Goal, frequency: Counter[str]) -> float:
    if not goal.attributes:
        return 0.0
    return sum(1 / frequency[attribute] for attribute in goal.attributes) / len(goal.attributes)
