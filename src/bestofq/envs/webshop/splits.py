"""Train, dev and test: by product (ours), or by place in the list of goals (WebShop's own, Agent Q's).

By product, no product and so no goal is in two splits, and a split does not change when products are added. The
others share products between their parts. Say which one a figure was made with.
"""

from collections.abc import Iterable, Sequence

from bestofq.core.observation import Split
from bestofq.envs.splits import split_of
from bestofq.envs.webshop.products import Catalogue, Goal, Product

AGENT_Q_TEST = 1_087  # of 12,087 human goals (Agent Q, section 4)


def products_of(split: Split, products: Iterable[Product], *, seed: int) -> Catalogue:
    """The products of one split, in their order."""
    return Catalogue(product for product in products if split_of(product.id, seed) == split)


def goals_of(split: Split, goals: Iterable[Goal], *, seed: int) -> tuple[Goal, ...]:
    """The goals for the products of one split, in their order."""
    return tuple(goal for goal in goals if split_of(goal.product_id, seed) == split)


def published_goals_of(split: Split, goals: Sequence[Goal]) -> tuple[Goal, ...]:
    """WebShop's own split, by index in the list of goals: test 0 to 499, dev 500 to 1,499, train from 1,500."""
    match split:
        case "test":
            return tuple(goals[:500])
        case "dev":
            return tuple(goals[500:1500])
        case "train":
            return tuple(goals[1500:])


def agent_q_goals_of(split: Split, goals: Sequence[Goal]) -> tuple[Goal, ...]:
    """Agent Q's sizes (section 4), by index in `goals.human_goals`: test 0 to 1,086, train the 11,000 from 1,087.

    Which goals were its test the paper does not say; these are the first, as in WebShop's own split. It has no dev.
    """
    match split:
        case "test":
            return tuple(goals[:AGENT_Q_TEST])
        case "dev":
            return ()
        case "train":
            return tuple(goals[AGENT_Q_TEST:])
