"""WebShop's goals (Yao et al. 2022): synthetic, one per combination of a product's options; or what people wrote.

The sentence is the product's instruction, its options and the price limit:

    find me a linen shirt with color: red, and size: large, and price lower than 40.00 dollars

The larger of two different prices drawn from the first four multiples of 10 dollars above the product's price (none
past 990) is the limit; a product with fewer than two such prices has none. Upstream draws it unseeded, so that its
limits differ from process to process; here they come from `seed`. The order is upstream's: shuffled with 233.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bestofq.envs.webshop.products import Goal, Instruction, Product

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
    return _in_order(weighted)


def human_goals(products: Iterable[Product], written: Iterable[Instruction], *, seed: int) -> tuple[Goal, ...]:
    """A goal for each instruction with attributes, for one of `products`, in upstream's order; each of weight 1.

    Its id is `<product>-h<number of its instruction>`. What a person asked for has no option names: an option is
    compared by its value alone.
    """
    by_product: dict[str, list[Instruction]] = {}
    for instruction in written:
        by_product.setdefault(instruction.product_id, []).append(instruction)
    goals = []
    for product in products:
        for number, instruction in enumerate(by_product.get(product.id, ())):
            if not instruction.attributes:
                continue
            name = f"{product.id}-h{number}"
            limit = _price_limit(product.price, f"{seed}-{name}")
            goals.append(
                Goal(
                    id=name,
                    product_id=product.id,
                    instruction=instruction.text.strip(".") + _price_text(limit),
                    attributes=instruction.attributes,
                    options=tuple(("", value) for value in instruction.options),
                    price_limit=limit,
                )
            )
    return _in_order(goals)


def _in_order(goals: Sequence[Goal]) -> tuple[Goal, ...]:
    shuffled = list(goals)
    random.Random(_ORDER_SEED).shuffle(shuffled)
    return tuple(shuffled)


def _goals(product: Product, seed: int) -> Iterator[Goal]:
    limit = _price_limit(product.price, f"{seed}-{product.id}")
    options = sorted(product.options, key=lambda option: option.name)
    for number, values in enumerate(itertools.product(*(option.values for option in options))):
        pairs = tuple((option.name, value) for option, value in zip(options, values, strict=True))
        option_text = " with " + ", and ".join(f"{name}: {value}" for name, value in pairs) if pairs else ""
        yield Goal(
            id=f"{product.id}-{number}",
            product_id=product.id,
            instruction=f"{product.instruction}{option_text}{_price_text(limit)}",
            attributes=product.instruction_attributes,
            options=pairs,
            price_limit=limit,
        )


def _price_text(limit: float) -> str:
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def _price_limit(price: float, key: str) -> float:
    above = [limit for limit in _LIMITS if limit > price][:4]
    if len(above) < 2:
        return NO_LIMIT
    return float(max(random.Random(f"limit-{key}").sample(above, 2)))


def _weight(goal: Goal, frequency: Counter[str]) -> float:
    if not goal.attributes:
        return 0.0
    return sum(1 / frequency[attribute] for attribute in goal.attributes) / len(goal.attributes)
