"""WebShop as a suite of tasks: which goals a split holds, in which shop they are shopped, what a purchase earns.

Split by product: train, dev and test each have their own shop over their own products, so that no product of one is
ever seen, bought or asked for in another.
"""

import random
from collections.abc import Iterable
from functools import cached_property

from bestofq.core.observation import Split, Task
from bestofq.envs.webshop.pages import Item, Shop
from bestofq.envs.webshop.products import Catalogue, Goal
from bestofq.envs.webshop.reward import RewardFunction
from bestofq.envs.webshop.search import SearchIndex
from bestofq.envs.webshop.splits import goals_of, products_of
from bestofq.envs.webshop.synthetic import SyntheticConfig, make_catalogue, make_goals

STEP_LIMIT = 15


class Suite:
    """Goals and shops of one catalogue. Agents get `tasks`; goals stay here."""

    def __init__(self, name: str, catalogue: Catalogue, goals: Iterable[Goal], *, seed: int) -> None:
        self.name = name
        self.catalogue = catalogue
        self.seed = seed
        self._goals = {goal.id: goal for goal in goals}
        self._shops: dict[Split, Shop] = {}

    def tasks(self, split: Split, limit: int | None = None) -> list[Task]:
        """The tasks of a split in a fixed shuffled order, so that the first k are a fair sample."""
        goals = list(goals_of(split, self._goals.values(), seed=self.seed))
        random.Random(f"tasks-{self.seed}-{split}").shuffle(goals)
        return [
            Task(id=goal.id, suite=self.name, goal=goal.instruction, start_url="/", seed=self.seed, split=split)
            for goal in goals[:limit]
        ]

    def goal(self, task_id: str) -> Goal:
        """What the task's buyer really asks for; rewards and oracles read it, agents never."""
        return self._goals[task_id]

    def products(self, split: Split) -> Catalogue:
        return products_of(split, self.catalogue, seed=self.seed)

    def shop(self, split: Split, *, shuffle: random.Random | None = None) -> Shop:
        """The shop of a split; the one with results in search order is made once."""
        if shuffle is not None:
            plain = self.shop(split)
            return Shop(plain.catalogue, plain.search, shuffle=shuffle)
        if split not in self._shops:
            products = self.products(split)
            self._shops[split] = Shop(products, SearchIndex(products))
        return self._shops[split]

    @cached_property
    def rewards(self) -> RewardFunction:
        return RewardFunction(self.catalogue)

    def reward(self, task: Task, item: Item) -> float:
        """What buying the item as chosen earns, in [0, 1]."""
        return self.rewards(self.goal(task.id), item.product_id, dict(item.chosen)).total


def synthetic_suite(config: SyntheticConfig | None = None) -> Suite:
    """The default suite: everything from a seed."""
    config = config or SyntheticConfig()
    catalogue = make_catalogue(config)
    return Suite("webshop", catalogue, make_goals(catalogue, config), seed=config.seed)
