"""How often our reward of WebShop is the published code's, over random purchases among the first 1,000 products.

    git clone https://github.com/princeton-nlp/WebShop
    pip install spacy thefuzz==0.22.1 && python -m spacy download en_core_web_lg
    python benchmarks/webshop_reward.py --upstream WebShop --data data/webshop --out webshop_reward.json

A case is a goal and a purchase: half the time the very product, else one of its query, else any; each option is chosen
as asked for half the time, else at random, else left out. The published code gets the records of the files, ours what
`webshop/source.py` makes of them; both the same prices and limits. `--spacy` names the pipeline for our exact
mode: that which the clone's `goal.py` loads.
"""

import argparse
import json
import platform
import random
import sys
from collections import defaultdict
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bestofq_sites.webshop.goals import synthetic_goals
from bestofq_sites.webshop.products import Product, ShopGoal
from bestofq_sites.webshop.reward import Nouns, RewardFunction, title_nouns
from bestofq_sites.webshop.source import ANNOTATIONS, PRODUCTS, load_catalogue


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Products as the published `engine.load_products` leaves them for the reward, by id."""
    notes = json.loads((folder / ANNOTATIONS).read_text("utf-8"))
    found = {}
    for raw in json.loads((folder / PRODUCTS).read_text("utf-8")):
        bullets = raw["small_description"]
        options: dict[str, list[str]] = {
            name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
            for name, values in (raw["customization_options"] or {}).items()
            if values is not None
        }
        found[raw["asin"]] = {
            "query": raw["query"].lower().strip(),
            "product_category": raw["product_category"],
            "name": raw["name"],
            "Title": raw["name"],
            "Description": raw["full_description"],
            "BulletPoints": bullets if isinstance(bullets, list) else [bullets],
            "Attributes": notes[raw["asin"]].get("attributes", ["DUMMY_ATTR"]),
            "options": options,
        }
    return found


def spacy_nouns(pipeline: str) -> Nouns:
    """The published code's rule: the tokens that the spaCy pipeline of this name or folder tags NOUN or PROPN."""
    tagged: Any = import_module("spacy").load(pipeline)

    def nouns(name: str) -> list[str]:
        return [token.text.lower() for token in tagged(name) if token.pos_ in ("NOUN", "PROPN")]

    return nouns


def shown(value: str) -> str:
    """A name or value of an option as our pages show it."""
    return " ".join(value.split())


def bought(rng: random.Random, goal: ShopGoal, products: list[Product], alike: dict[str, list[Product]]) -> Product:
    wanted = next(product for product in products if product.id == goal.product_id)
    draw = rng.random()
    return wanted if draw < 0.5 else rng.choice(alike[wanted.query] if draw < 0.75 else products)


def chosen(rng: random.Random, goal: ShopGoal, options: dict[str, list[str]]) -> dict[str, str]:
    """As the file writes them."""
    asked, taken = dict(goal.options), {}
    for name, values in options.items():
        draw = rng.random()
        right = [value for value in values if shown(value) == asked.get(shown(name))]
        if draw < 0.85 and values:
            taken[name] = right[0] if right and draw < 0.5 else rng.choice(values)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=Path, required=True, help="a clone of princeton-nlp/WebShop")
    parser.add_argument("--data", type=Path, required=True, help="folder of the first 1,000 products")
    parser.add_argument("--spacy", default="en_core_web_lg")
    parser.add_argument("--cases", type=int, default=12_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(given.upstream))
    upstream: Any = import_module("web_agent_site.engine.goal")
    upstream.nlp = lru_cache(maxsize=None)(upstream.nlp)
    catalogue, published = load_catalogue(given.data, seed=0), records(given.data)
    goals, products = synthetic_goals(catalogue.values(), seed=0), list(catalogue.values())
    alike = defaultdict(list)
    for product in products:
        alike[product.query].append(product)
    rules = {"title_nouns": title_nouns, "spacy": spacy_nouns(given.spacy)}
    ours = {name: RewardFunction(products, nouns) for name, nouns in rules.items()}
    same = {name: defaultdict(int) for name in ours}
    rng = random.Random(0)
    for _ in range(given.cases):
        goal = rng.choice(goals)
        product = bought(rng, goal, products, alike)
        taken = chosen(rng, goal, published[product.id]["options"])
        wanted = published[goal.product_id]
        raw = {shown(value): value for values in wanted["options"].values() for value in values}
        asked = {
            "query": wanted["query"],
            "product_category": wanted["product_category"],
            "name": wanted["name"],
            "attributes": list(goal.attributes),
            "goal_options": {name: raw[value] for name, value in goal.options},
            "price_upper": goal.price_limit,
        }
        theirs, parts = upstream.get_reward(published[product.id], asked, product.price, taken, verbose=True)
        option = parts.get("r_option")
        for name, function in ours.items():
            mine = function(goal, product.id, {shown(n): shown(v) for n, v in taken.items()})
            same[name]["total"] += abs(mine.total - theirs) < 1e-9
            same[name]["type"] += mine.r_type == parts["r_type"]
            same[name]["attributes"] += abs(mine.r_att - parts["r_att"]) < 1e-9
            same[name]["options"] += abs(mine.r_option - (1.0 if option is None else option)) < 1e-9
            same[name]["success"] += (mine.total == 1.0) == (theirs == 1.0)
    result = {
        "command": "python benchmarks/webshop_reward.py " + " ".join(sys.argv[1:]),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("spacy", "thefuzz", "rapidfuzz")},
        "spacy": given.spacy,
        "cases": given.cases,
        "same": {name: {part: count / given.cases for part, count in counts.items()} for name, counts in same.items()},
    }
    text = json.dumps(result, indent=2)
    if given.out:
        given.out.write_text(text + "\n", "utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
