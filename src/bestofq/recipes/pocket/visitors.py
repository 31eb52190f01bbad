"""What visitors of the shop do who do not follow the oracle."""

import random

from bestofq.core.actions import Action, Click, Write
from bestofq.core.observation import Observation
from bestofq.envs.webshop.pages import BUY, Item, Results, Shop, Start, View, link_name
from bestofq.envs.webshop.text import TextEnv
from bestofq.recipes.pocket.oracle import Oracle


def stray(
    shop: Shop, env: TextEnv, oracle: Oracle, observation: Observation, rng: random.Random, *, ending: bool = False
) -> Action:
    """Something plausible but unadvised: another product, another option, a weaker query, a wrong turn."""
    view = env.view
    if isinstance(view, Start):
        words = oracle.query.split()
        kept = [w for w in words if rng.random() < 0.6] or words[-1:]
        return Write(mark=1, text=rng.choice((oracle.type, " ".join(kept), oracle.query)), enter=True)
    links = [e for e in observation.elements if ending or not e.name.startswith(BUY)]
    if isinstance(view, Results) and rng.random() < 0.8:
        shown = shop.shown(view)
        alike = [product for product in shown if product.query == oracle.type]
        names = set(map(link_name, alike if alike and rng.random() < 0.6 else shown))
        links = [e for e in links if e.name in names] or links
    if isinstance(view, Item) and rng.random() < 0.6:
        links = [e for e in links if e.role in ("radio", "button")] or links
    return Click(mark=rng.choice(links).mark)


def hasty(view: View, observation: Observation) -> Action | None:
    """What somebody does who reads nothing: open the first result, buy without choosing; None elsewhere."""
    match view:
        case Results():
            return next((Click(mark=e.mark) for e in observation.elements if "$" in e.name), None)
        case Item():
            return next((Click(mark=e.mark) for e in observation.elements if e.name.startswith(BUY)), None)
    return None
