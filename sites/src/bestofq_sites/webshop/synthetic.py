"""A catalogue and its goals from a seed: the default data, so that nothing needs to be downloaded.

Each product shows some of its attributes in its title and hides the others in its features, as in WebShop; colours,
sizes and the like are options; instructions come in several phrasings. The same seed makes the same shop.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq_sites.webshop.goals import price_limit
from bestofq_sites.webshop.products import Catalogue, Option, Product, ShopGoal


class SyntheticConfig(FrozenModel):
    seed: int = 2026
    products_per_category: int = Field(default=150, ge=1, description="there are 22 categories")
    goals_per_product: int = Field(default=3, ge=1)


SHOWN = 0.8  # the chance that an attribute stands in the title
_WORDS = tomllib.loads(files(__package__).joinpath("synthetic.toml").read_text("utf-8"))


def make_catalogue(config: SyntheticConfig) -> Catalogue:
    """Products in a shuffled order, so that no category is favoured where search scores tie."""
    rng = random.Random(f"catalogue-{config.seed}")
    products = [
        _product(f"P{c:02d}{i:04d}", category, rng)
        for c, category in enumerate(_WORDS["category"])
        for i in range(config.products_per_category)
    ]
    rng.shuffle(products)
    return {product.id: product for product in products}


def _product(product_id: str, category: Mapping[str, Any], rng: random.Random) -> Product:
    adjectives = rng.sample(category["adjectives"], rng.choice((2, 3, 3, 4)))
    extras = rng.sample(category["with"], rng.choice((0, 1, 1, 2)))
    shown = [a for a in adjectives if rng.random() < SHOWN]
    shown_extras = [a for a in extras if rng.random() < SHOWN]
    brand = rng.choice(_WORDS["brands"])
    title = " ".join([brand, *shown, category["type"]])
    if shown_extras:
        title += " with " + " and ".join(shown_extras)
    hidden = [a for a in (*adjectives, *extras) if a not in (*shown, *shown_extras)]
    attributes = [*adjectives, *extras]
    bullets = [
        rng.choice(_WORDS["phrases"]["with" if a in extras else "feature"]).format(attribute=a)
        for a in sorted(attributes, key=lambda a: (a in hidden, rng.random()))
    ]
    low, high = category["price"]
    price = round(rng.triangular(low, high, low + (high - low) * 0.3)) - rng.choice((0.01, 0.05, 0.5))
    offered = {n: tuple(v for v in values if rng.random() < 0.75) for n, values in category["options"].items()}
    wanted = rng.sample(attributes, min(len(attributes), rng.choice((1, 2, 2, 3))))
    return Product(
        id=product_id,
        name=title,
        query=category["type"],
        category=category["levels"],
        price=round(price, 2),
        description=f"{brand} {category['type']}. {rng.choice(bullets).capitalize()}.",
        bullets=tuple(bullets),
        reviews=tuple(f"{rng.randint(2, 5)} stars: {text}" for text in rng.sample(_WORDS["reviews"], 2)),
        options=tuple(Option(name=name, values=values) for name, values in offered.items() if len(values) >= 2),
        attributes=tuple(attributes),
        instruction=" ".join([*(a for a in wanted if a in adjectives), category["type"]])
        + "".join(f" with {a}" for a in wanted if a in extras),
        instruction_attributes=tuple(wanted),
    )


def make_goals(catalogue: Catalogue, config: SyntheticConfig) -> Iterator[ShopGoal]:
    """`goals_per_product` goals a product: its own wanted attributes, a choice of options, a price limit."""
    phrases = _WORDS["phrases"]
    for product in catalogue.values():
        rng = random.Random(f"goals-{config.seed}-{product.id}")
        for number in range(config.goals_per_product):
            options = tuple((o.name, rng.choice(o.values)) for o in product.options if rng.random() < 0.8)
            limit = price_limit(product.price, rng)
            what = product.instruction or product.query
            for name, value in options:
                what += " " + rng.choice(phrases["option"]).format(name=name, value=value)
            yield ShopGoal(
                id=f"{product.id}-{number}",
                product_id=product.id,
                instruction=rng.choice(phrases["goal"]).format(what=what, limit=int(limit)),
                attributes=product.instruction_attributes,
                options=options,
                price_limit=limit,
            )
