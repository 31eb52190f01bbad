"""WebShop as a suite of tasks: which goals a split holds, in which shop they are shopped, what a purchase earns.

Split by product, train, dev and test each have their own shop over their own products, so that no product of one is
ever seen, bought or asked for in another. That split does not change when products are added. The published splits are
by place in the list of goals (WebShop's own, Agent Q's), in one shop for all: their parts share products. Say which one
a figure was made with.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path

from bestofq.core.actions import Action, Click, Submit
from bestofq.core.errors import InputError
from bestofq.core.irreversible import element_of
from bestofq.core.observation import Observation, Split, Task
from bestofq.envs.local_site.rules import Wording
from bestofq.envs.splits import split_of
from bestofq.envs.webshop.goals import human_goals, synthetic_goals
from bestofq.envs.webshop.pages import BUY, Shop, Visit
from bestofq.envs.webshop.products import Catalogue, Goal, Product
from bestofq.envs.webshop.reward import RewardFunction, spacy_nouns, title_nouns
from bestofq.envs.webshop.search import SearchIndex
from bestofq.envs.webshop.settings import SearchFields, Splits, WebShopSettings
from bestofq.envs.webshop.source import is_full, load_catalogue, load_written
from bestofq.envs.webshop.synthetic import SyntheticConfig, make_catalogue, make_goals

STEP_LIMIT = 15
AGENT_Q_TEST = 1_087  # of 12,087 human goals (Agent Q, section 4)
PUBLISHED: Mapping[str, Mapping[Split, slice]] = {
    "webshop": {"test": slice(500), "dev": slice(500, 1500), "train": slice(1500, None)},
    "agent-q": {"test": slice(AGENT_Q_TEST), "dev": slice(0), "train": slice(AGENT_Q_TEST, None)},
}
"""By place in the list of goals. Which goals were Agent Q's test (section 4) the paper does not say; these are the
first, as in WebShop's own split. It has no dev."""
WORDING = Wording(
    no_way_back="There is no earlier page to go back to.",
    no_element="There is no element [{mark}] on this page; marks go from 1 to {count}.",
    no_field="[{mark}] {name} is a {role}, not a field.",
    no_form="[{mark}] {name} belongs to no form.",
    no_address="{url} is not a page of this shop.",
)


class WebShop:
    """Goals and shops of one catalogue (`local_site.rules.Rules`). Agents get `tasks`; goals stay here."""

    step_limit = STEP_LIMIT
    style = files(__package__).joinpath("site.css").read_text("utf-8")
    wording = WORDING

    def __init__(self, name: str, catalogue: Catalogue, goals: Iterable[Goal], settings: WebShopSettings) -> None:
        """Of the settings it needs `seed`, `splits` (None: by product), `search_fields` and `spacy`. SetupError where
        spaCy or its pipeline is missing."""
        self.name = name
        self.catalogue = catalogue
        self._seed = settings.seed
        self._splits: Splits = settings.splits or "product"
        self._search_fields = settings.search_fields
        self._nouns = spacy_nouns(settings.spacy) if settings.spacy else title_nouns
        self._goals = {goal.id: goal for goal in goals}
        self._shops: dict[Split, Shop] = {}
        self._tasks: dict[Split, list[Task]] = {}

    def tasks(self, split: Split, limit: int | None = None) -> list[Task]:
        """The tasks of a split in a fixed shuffled order, so that the first k are a fair sample.

        InputError where the split has none.
        """
        if split not in self._tasks:
            goals = list(goals_of(split, tuple(self._goals.values()), splits=self._splits, seed=self._seed))
            if not goals:
                raise InputError(
                    f"{self.name} split as {self._splits} has no {split} tasks: set suite.splits to another"
                )
            random.Random(f"tasks-{self._seed}-{split}").shuffle(goals)
            self._tasks[split] = [
                Task(id=goal.id, suite=self.name, goal=goal.instruction, start_url="/", seed=self._seed, split=split)
                for goal in goals
            ]
        return self._tasks[split][:limit]

    def goal(self, task_id: str) -> Goal:
        """What the task's buyer really asks for; rewards and oracles read it, agents never."""
        return self._goals[task_id]

    def products(self, split: Split) -> Catalogue:
        if self._splits == "product":
            return products_of(split, self.catalogue.values(), seed=self._seed)
        return self.catalogue

    def shop(self, split: Split, *, shuffle: random.Random | None = None) -> Shop:
        """The shop of a split; the one with results in search order is made once."""
        if shuffle is not None:
            plain = self.shop(split)
            return Shop(plain.catalogue, plain.search, shuffle=shuffle)
        if split not in self._shops:
            products = self.products(split)
            same = (shop for shop in self._shops.values() if shop.catalogue is products)
            self._shops[split] = next(same, None) or Shop(products, SearchIndex(products.values(), self._search_fields))
        return self._shops[split]

    @cached_property
    def rewards(self) -> RewardFunction:
        return RewardFunction(self.catalogue.values(), self._nouns)

    def server(self, split: Split) -> Shop:
        return self.shop(split)

    def visit(self, task: Task) -> Visit:
        return Visit()

    def ended(self, visit: Visit) -> bool:
        return visit.bought is not None

    def reward(self, task: Task, visit: Visit) -> float:
        """What was bought earns, in [0, 1]; nothing before."""
        item = visit.bought
        return 0.0 if item is None else self.rewards(self.goal(task.id), item.product_id, dict(item.chosen)).total

    def reply(self, task: Task, question: str) -> None:
        """Nobody stands beside the buyer."""

    def irreversible(self, observation: Observation, action: Action) -> bool:
        """Whether the action buys: what a search must not try out where nothing can be put back."""
        element = element_of(action, observation) if isinstance(action, Click | Submit) else None
        return element is not None and element.role == "button" and element.name.startswith(BUY)


def synthetic_suite(config: SyntheticConfig | None = None, settings: WebShopSettings | None = None) -> WebShop:
    """The default suite: everything from a seed, that of `config`. SetupError as `WebShop`."""
    config = config or SyntheticConfig()
    catalogue = make_catalogue(config)
    split = (settings or WebShopSettings()).model_copy(update={"seed": config.seed, "splits": "product"})
    return WebShop("webshop", catalogue, make_goals(catalogue, config), split)


def real_suite(settings: WebShopSettings) -> WebShop:
    """WebShop's real files: the 1,000 products with 6,910 synthetic goals, or all with 12,087 that people wrote.

    `splits` None: WebShop's own of the first, Agent Q's of the second. DataError when a file of `data` cannot be read.
    """
    folder, seed = settings.data or Path(), settings.seed
    catalogue = load_catalogue(folder, seed=seed)
    if is_full(folder):
        name, usual, goals = (
            "webshop-human",
            "agent-q",
            human_goals(catalogue.values(), load_written(folder), seed=seed),
        )
    else:
        name, usual, goals = "webshop-1000", "webshop", synthetic_goals(catalogue.values(), seed=seed)
    return WebShop(name, catalogue, goals, settings.model_copy(update={"splits": settings.splits or usual}))


def shop(settings: WebShopSettings) -> WebShop:
    """The suite's rules that the settings name. DataError as `real_suite`."""
    if settings.data is not None:
        return real_suite(settings)
    return _synthetic(settings.seed, settings.search_fields, settings.spacy)


@lru_cache(2)
def _synthetic(seed: int, search_fields: SearchFields, spacy: str | None) -> WebShop:
    """It never changes and takes most of a second to make: all that use it share it."""
    return synthetic_suite(SyntheticConfig(seed=seed), WebShopSettings(search_fields=search_fields, spacy=spacy))


def products_of(split: Split, products: Iterable[Product], *, seed: int) -> Catalogue:
    return {product.id: product for product in products if split_of(product.id, seed) == split}


def goals_of(split: Split, goals: Sequence[Goal], *, splits: Splits = "product", seed: int = 0) -> tuple[Goal, ...]:
    """The goals of one split, in their order; `seed` is that of the split by product."""
    if splits == "product":
        return tuple(goal for goal in goals if split_of(goal.product_id, seed) == split)
    return tuple(goals[PUBLISHED[splits][split]])
