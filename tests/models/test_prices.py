"""Prices, and that an unknown one stays unknown."""

from math import nan

import pytest

from bestofq.core.errors import ConfigError
from bestofq.models.chat import ChatConfig
from bestofq.models.prices import Budget, Price, price_of


def test_what_is_set_comes_before_the_published_price() -> None:
    assert ChatConfig(model="gpt-4.1").price() == price_of("openai/gpt-4.1-2025-04-14") == (2, 8)
    assert ChatConfig(model="gpt-4.1", usd_in=1.0).price() == (1, 8)
    assert ChatConfig(model="another").price() == (None, None)


@pytest.mark.parametrize("limit", [nan, -1.0])
def test_a_budget_is_a_number_of_dollars(limit: float) -> None:
    with pytest.raises(ConfigError, match=f"--budget {limit:g} is no limit: give USD, 0 or more"):
        Budget(limit)


def test_an_unknown_price_is_never_0() -> None:
    assert Price(None, None).usd(100, 20) is None
    assert Price(1.0, None).usd(100, 0) is None
    assert Price(0.0, 0.0).usd(100, 20) == 0
    assert Price(2.0, 8.0).usd(1_000_000, 500_000) == 6.0
