"""WebShop as a suite of tasks: which goals a split holds, in which shop they are shopped, what a purchase earns.

Split by product, train, dev and test each have their own shop over their own products, and adding products changes no
split. The published splits (WebShop's, Agent Q's) are by place in the list of goals, in one shop: they share products.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path

from bestofq.core.actions import Action, Click, Submit
from bestofq.core.errors import InputError
from bestofq.core.observation import Element, Split, Task
from bestofq.envs.splits import split_of
from bestofq_sites.local_site.rules import Rules
from bestofq_sites.webshop.goals import human_goals, synthetic_goals
from bestofq_sites.webshop.pages import BUY, Shop, ShopVisit, View
from bestofq_sites.webshop.products import Catalogue, ShopGoal
from bestofq_sites.webshop.reward import RewardFunction
from bestofq_sites.webshop.search import SearchIndex
from bestofq_sites.webshop.settings import Splits, WebShopSettings
from bestofq_sites.webshop.source import is_full, load_catalogue, load_written
from bestofq_sites.webshop.synthetic import SyntheticConfig, make_catalogue, make_goals

STEP_LIMIT = 15
AGENT_Q_TEST = 1_087  # of 12,087 human goals (Agent Q, section 4)
PUBLISHED: Mapping[str, Mapping[Split, slice]] = {
    "webshop": {"test": slice(500), "dev": slice(500, 1500), "train": slice(1500, None)},
    "agent-q": {"test": slice(AGENT_Q_TEST), "dev": slice(0), "train": slice(AGENT_Q_TEST, None)},
}
"""By place in the list of goals. Which goals were Agent Q's test (section 4) the paper does not say; these are the
first, as in WebShop's own split. It has no dev."""


class WebShop(Rules[ShopGoal, ShopVisit, View | None]):
    """Goals and shops of one catalogue. Agents get `tasks`; goals stay here."""

    step_limit, make_shop = STEP_LIMIT, Shop
    style = files(__package__).joinpath("site.css").read_text("utf-8")

    def __init__(self, name: str, catalogue: Catalogue, goals: Iterable[ShopGoal], settings: WebShopSettings) -> None:
        """`settings.splits` None: by product."""
        super().__init__(goals, settings.seed)
        self.name = name
        self.catalogue = catalogue
        self._splits: Splits = settings.splits or "product"
        self._search_fields = settings.search_fields
        self._shops: dict[Split | None, Shop] = {}

    def goals_of(self, split: Split) -> Sequence[ShopGoal]:
        if self._splits == "product":
            goals = [goal for goal in self.goals.values() if split_of(goal.product_id, self.seed) == split]
        else:
            goals = list(self.goals.values())[PUBLISHED[self._splits][split]]
        if not goals:
            raise InputError(f"{self.name} split as {self._splits} has no {split} tasks: set suite.splits to another")
        return goals

    def products(self, split: Split) -> Catalogue:
        if self._splits != "product":
            return self.catalogue
        return {id: product for id, product in self.catalogue.items() if split_of(id, self.seed) == split}

    def server(self, split: Split) -> Shop:
        part = split if self._splits == "product" else None  # None: one shop for all
        if part not in self._shops:
            products = self.products(split)
            self._shops[part] = self.make_shop(products, SearchIndex(products.values(), self._search_fields).search)
        return self._shops[part]

    @cached_property
    def rewards(self) -> RewardFunction:
        return RewardFunction(self.catalogue.values())

    def visit(self, task: Task) -> ShopVisit:
        return ShopVisit()

    def is_over(self, visit: ShopVisit) -> bool:
        return visit.bought is not None

    def reward(self, task: Task, visit: ShopVisit) -> float:
        """What was bought earns, in [0, 1]; nothing before."""
        item = visit.bought
        return 0.0 if item is None else self.rewards(self.goals[task.id], item.product_id, dict(item.chosen)).total

    def commits(self, action: Action, element: Element) -> bool:
        return isinstance(action, Click | Submit) and element.role == "button" and element.name.startswith(BUY)


def synthetic_suite(config: SyntheticConfig | None = None, settings: WebShopSettings | None = None) -> WebShop:
    """The default suite: everything from a seed, that of `config`."""
    config = config or SyntheticConfig()
    catalogue, goals = _synthetic(config)
    split = (settings or WebShopSettings()).model_copy(update={"seed": config.seed, "splits": "product"})
    return WebShop("webshop", catalogue, goals, split)


@lru_cache(maxsize=4)  # a study opens the same shop many times
def _synthetic(config: SyntheticConfig) -> tuple[Catalogue, tuple[ShopGoal, ...]]:
    catalogue = make_catalogue(config)
    return catalogue, tuple(make_goals(catalogue, config))


def real_suite(settings: WebShopSettings) -> WebShop:
    """WebShop's real files: 1,000 products and 6,910 synthetic goals, or all and 12,087 by people. DataError."""
    folder, seed = settings.data or Path(), settings.seed
    catalogue = load_catalogue(folder, seed=seed)
    if is_full(folder):
        name, usual = "webshop-human", "agent-q"
        goals = human_goals(catalogue.values(), load_written(folder), seed=seed)
    else:
        name, usual = "webshop-1000", "webshop"
        goals = synthetic_goals(catalogue.values(), seed=seed)
    return WebShop(name, catalogue, goals, settings.model_copy(update={"splits": settings.splits or usual}))


def shop(settings: WebShopSettings) -> WebShop:
    """The suite's rules that the settings name. DataError as `real_suite`."""
    if settings.data is not None:
        return real_suite(settings)
    return synthetic_suite(SyntheticConfig(seed=settings.seed), settings)
