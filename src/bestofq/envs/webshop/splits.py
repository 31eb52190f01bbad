"""Train, dev and test: by product (ours), or by place in the list of goals (WebShop's own, Agent Q's).

By product, no product and so no goal is in two splits, and a split does not change when products are added. The
others share products between their parts. Say which one a figure was made with.
"""

from collections.abc import Iterable, Mapping, Sequence

from bestofq.core.observation import Split
from bestofq.envs.splits import split_of
from bestofq.envs.webshop.products import Catalogue, Goal, Product
from bestofq.envs.webshop.settings import Splits

AGENT_Q_TEST = 1_087  # of 12,087 human goals (Agent Q, section 4)
PUBLISHED: Mapping[str, Mapping[Split, slice]] = {
    "webshop": {"test": slice(500), "dev": slice(500, 1500), "train": slice(1500, None)},
    "agent-q": {"test": slice(AGENT_Q_TEST), "dev": slice(0), "train": slice(AGENT_Q_TEST, None)},
}
"""By place in the list of goals. Which goals were Agent Q's test (section 4) the paper does not say; these are the
first, as in WebShop's own split. It has no dev."""


def products_of(split: Split, products: Iterable[Product], *, seed: int) -> Catalogue:
    """The products of one split, in their order."""
    return Catalogue(product for product in products if split_of(product.id, seed) == split)


def goals_of(split: Split, goals: Sequence[Goal], *, splits: Splits = "product", seed: int = 0) -> tuple[Goal, ...]:
    """The goals of one split, in their order; `seed` is that of the split by product."""
    if splits == "product":
        return tuple(goal for goal in goals if split_of(goal.product_id, seed) == split)
    return tuple(goals[PUBLISHED[splits][split]])
