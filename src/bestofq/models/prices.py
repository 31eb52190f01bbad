"""What tokens cost, and how much the endpoints of one command may cost together."""

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NamedTuple

from bestofq.core.errors import BudgetError, ConfigError


class Price(NamedTuple):
    """USD per million tokens; None if unknown."""

    usd_in: float | None
    usd_out: float | None

    def usd(self, tokens_in: int, tokens_out: int) -> float | None:
        """Return the cost of so many tokens; None, never 0, if a price is unknown."""
        if self.usd_in is None or self.usd_out is None:
            return None
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / 1e6


UNKNOWN = Price(None, None)
TABLE_13 = {"qwen2.5-vl-72b": Price(1.0, 4.0), "qwen2.5-vl-7b": Price(0.15, 0.6), "qwen2.5-vl-3b": Price(0.1, 0.4)}
"""The models of Best-of-Q, appendix J, that genai-prices does not know."""


@lru_cache
def price_of(model: str) -> Price:
    """Return today's price of a model by genai-prices, then its price in `TABLE_13`, else `UNKNOWN`.

    The price is that of prompts of 1,000 tokens: some models charge more for long prompts.
    """
    from genai_prices import Usage, calc_price  # its table takes 0.1 s to load

    name = model.rpartition("/")[2].lower()
    try:
        prices = calc_price(Usage(input_tokens=1000, output_tokens=1000), name)
    except LookupError:
        return TABLE_13.get(name.removesuffix("-instruct"), UNKNOWN)
    return Price(float(prices.input_price) * 1000, float(prices.output_price) * 1000)


@dataclass
class Budget:
    """USD that the endpoints of one command may cost together; calls in flight when it is spent are paid too."""

    limit: float = inf
    spent: float = 0.0

    def __post_init__(self) -> None:
        if not self.limit >= 0:
            raise ConfigError(f"--budget {self.limit:g} is no limit: give USD, 0 or more")

    def check(self) -> None:
        """BudgetError once it is spent."""
        if self.spent >= self.limit:
            raise BudgetError(
                f"the endpoints' replies cost {self.spent:.4g} USD and --budget allows {self.limit:g}: run the same "
                "command again with a budget for the rest"
            )
