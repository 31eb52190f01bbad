"""The shop's oracle: knows what each purchase earns and so what to do anywhere. Teaches the pocket model, and rates the
candidates of stored steps.

It is privileged (it knows hidden attributes), so its demonstrations hold guesses where the page does not tell; where
several actions are right it takes the one whose reasons can be seen.
"""

from dataclasses import dataclass

from bestofq.core.actions import Action, Click, GoBack, Write
from bestofq.core.observation import Observation
from bestofq_sites.webshop.pages import BUY, PAGE_SIZE, Bought, Detail, Item, Shop, ShopResults, Start, View
from bestofq_sites.webshop.products import Product, ShopGoal
from bestofq_sites.webshop.suite import WebShop
from experiments.oracles.advice import Advice, click_on, mark_of


@dataclass(frozen=True)
class Winner:
    """A product that can earn 1, and the options that do."""

    product: Product
    options: tuple[tuple[str, str], ...]
    visible: int  # goal attributes that stand in its title


class Oracle:
    """Advice for one goal."""

    def __init__(self, suite: WebShop, goal: ShopGoal) -> None:
        self.goal = goal
        wanted = suite.catalogue[goal.product_id]
        self.query = wanted.instruction or wanted.query
        self.type = wanted.query
        self._suite = suite
        self._winners: dict[str, Winner | None] = {}

    def winner(self, product: Product) -> Winner | None:
        """How to earn 1 with this product, or None. Worked out when first asked."""
        if product.query != self.type:
            return None
        if product.id not in self._winners:
            offered = {option.name: option.values for option in product.options}
            options = tuple((n, v) for n, v in self.goal.options if v in offered.get(n, ()))
            earns = self._suite.rewards(self.goal, product.id, dict(options)).total >= 1
            visible = sum(attribute in product.name.lower() for attribute in self.goal.attributes)
            self._winners[product.id] = Winner(product, options, visible) if earns else None
        return self._winners[product.id]

    def advise(self, shop: Shop, view: View | None, observation: Observation) -> Advice:
        """What to do at `view`; ValueError after the end."""
        match view:
            case Start():
                return Advice("search for it", Write(mark=mark_of(observation, "Search"), text=self.query, enter=True))
            case ShopResults():
                return self._at_results(shop, view, observation)
            case Item():
                return self._at_item(shop, view, observation)
            case Detail():
                return Advice("back to the item", click_on(observation, "< Prev"))
            case Bought() | None:
                raise ValueError("the episode has ended: there is nothing to advise")

    def good_results(self, shop: Shop, view: ShopResults) -> list[Winner]:
        """Winners among the products of this page, the most visibly right first, then in page order."""
        winners = [w for w in map(self.winner, shop.shown(view)) if w is not None]
        return sorted(winners, key=lambda w: -w.visible)

    def _at_results(self, shop: Shop, view: ShopResults, observation: Observation) -> Advice:
        if good := self.good_results(shop, view):
            wants = " ".join((*self.goal.attributes, self.type))
            name = good[0].product.name
            mark = next(e.mark for e in observation.elements if e.name.endswith(f" {name}"))
            return Advice(f"want {wants} under {self.goal.price_limit:.0f}", Click(mark=mark))
        found = shop.results(view.query)
        if any(self.winner(product) for product in found[view.page * PAGE_SIZE :]):
            return Advice("none fits, next page", click_on(observation, "Next >"))
        return Advice("none fits, search again", click_on(observation, "Back to Search"))

    def _at_item(self, shop: Shop, view: Item, observation: Observation) -> Advice:
        product = shop.catalogue[view.product_id]
        winner = self.winner(product)
        if winner is None:
            return Advice(self._complaint(product), click_on(observation, "< Prev"))
        chosen = dict(view.chosen)
        for name, value in winner.options:
            if chosen.get(name) != value:
                return Advice(f"need {name} {value}", click_on(observation, value, role="radio"))
        return Advice("all chosen", Click(mark=next(e.mark for e in observation.elements if e.name.startswith(BUY))))

    def _complaint(self, product: Product) -> str:
        if product.query != self.type:
            return f"not {self.type}"
        name = product.name.lower()
        for attribute in self.goal.attributes:
            if attribute not in name:
                return f"not {attribute}"
        if product.price > self.goal.price_limit:
            return f"over {self.goal.price_limit:.0f}"
        offered = {option.name: option.values for option in product.options}
        for option, value in self.goal.options:
            if value not in offered.get(option, ()):
                return f"no {option} {value}"
        return "does not fit"


def is_right(oracle: Oracle, shop: Shop, view: View, observation: Observation, action: Action) -> bool:
    """Whether the action keeps full reward in reach without a detour, as one who knows all would see it."""
    mark = action.mark if isinstance(action, Click) else None
    name = next((e.name for e in observation.elements if e.mark == mark), "")
    match view, action:
        case Start(), Write(text=text, enter=True):
            return bool(oracle.good_results(shop, ShopResults(query=" ".join(text.split()))))
        case ShopResults(), Click(mark=int()):
            if good := oracle.good_results(shop, view):
                return any(name.endswith(f" {winner.product.name}") for winner in good)
            later = any(oracle.winner(p) for p in shop.results(view.query)[view.page * PAGE_SIZE :])
            return name == ("Next >" if later else "Back to Search")
        case Item(product_id=product_id, chosen=chosen), Click(mark=int()):
            if (winner := oracle.winner(shop.catalogue[product_id])) is None:
                return name in ("< Prev", "Back to Search")
            missing = [value for option, value in winner.options if dict(chosen).get(option) != value]
            return name in missing if missing else name.startswith(BUY)
        case Item(product_id=product_id), GoBack():
            return oracle.winner(shop.catalogue[product_id]) is None
        case Detail(), Click(mark=int()):
            return name == "< Prev"
    return False
