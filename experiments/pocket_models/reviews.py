"""Reviews of candidates: what of the goal an action meets, by what can be read in the candidate's own label.

Exercises in reading, not advice: a review goes through the words of the goal in their order, says for each whether the
label has it, and closes with one word for the whole: `waterproof fits, lamp fits, under 60 not: wrong`. Hidden
attributes are not looked up. The list comes before the verdict because a model this small compares two texts only word
by word.
"""

from collections.abc import Mapping

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, State
from bestofq_sites.webshop.pages import BUY, Shop, link_name
from bestofq_sites.webshop.products import Product
from bestofq_sites.webshop.views import Item, ShopResults, View
from experiments.oracles.webshop import Oracle
from experiments.pocket_models.examples import verdict


def review(oracle: Oracle, shop: Shop, view: View, state: State, candidate: Candidate) -> str:
    """A line on one candidate in one state."""
    checks: list[tuple[str, bool]] = []
    match view, candidate.action:
        case ShopResults(), Click(mark=int(mark)):
            name = state.observation.elements[mark - 1].name
            product = next((p for p in shop.shown(view) if link_name(p) == name), None)
            if product is not None:
                seen = {decision.candidate.label for decision in state.decisions}
                checks = [*_as_asked(oracle, product, {}), ("new", candidate.label not in seen)]
        case Item(product_id=product_id, chosen=chosen), Click(mark=int(mark)):
            element = state.observation.elements[mark - 1]
            product = shop.catalogue[product_id]
            if element.name.startswith(BUY):
                checks = _as_asked(oracle, product, {f"{n} {v}": (n, v) in chosen for n, v in oracle.goal.options})
            elif element.role == "radio":
                wanted = {value for _, value in oracle.goal.options}
                checks = [(element.name, element.name in wanted), ("new", "checked" not in element.states)]
    if not checks:
        return "moves on"
    return verdict(checks)


def _as_asked(oracle: Oracle, product: Product, options: Mapping[str, bool]) -> list[tuple[str, bool]]:
    """What the goal asks of a product, in the order of its words."""
    name, goal = product.name.lower(), oracle.goal
    checks = {attribute: attribute in name for attribute in goal.attributes}
    checks |= {oracle.type: product.query == oracle.type, **options}
    words = {what: what for what in checks} | {f"{n} {v}": v for n, v in goal.options}
    ordered = sorted(checks.items(), key=lambda check: goal.instruction.rfind(words[check[0]]))
    return [*ordered, (f"under {goal.price_limit:.0f}", product.price <= goal.price_limit)]
