"""Sums of tokens, calls, seconds and USD."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from bestofq.core.usage import Role, Usage

ALL = "all"
Prices = Mapping[Role, tuple[float, float]]
"""USD per million tokens, in and out, of a role; for the Q-function's embedder see Best-of-Q, Table 13."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over episodes. `usd` adds the known prices; `unpriced` counts the tokens whose price is not known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    unpriced: int = 0

    @classmethod
    def of(cls, used: Usage, prices: Prices | None = None) -> Self:
        """From one usage; `prices` if it has none of its own."""
        usd, tokens = used.usd, used.tokens_in + used.tokens_out
        if usd is None and prices and used.role in prices:
            usd_in, usd_out = prices[used.role]
            usd = (used.tokens_in * usd_in + used.tokens_out * usd_out) / 1e6
        unpriced = tokens if usd is None else 0
        return cls(used.tokens_in, used.tokens_out, used.calls, used.seconds, usd or 0.0, unpriced)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def price(self) -> float | None:
        """USD; None as soon as a part of it is not known."""
        return None if self.unpriced else self.usd

    def dollars(self, among: int = 1) -> str:
        """USD for each of `among`, in words: `≥` if only a part has a known price."""
        if among == 0:
            return "–"
        if self.unpriced and not self.usd:
            return "unknown"
        each = self.usd / among
        return ("≥ " if self.unpriced else "") + (f"{each:,.2f}" if each >= 1 or each == 0 else f"{each:.2g}")

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, name) + getattr(other, name) for name in Spent.__slots__))


def spent_by_role(usages: Iterable[Usage], prices: Prices | None = None) -> dict[str, Spent]:
    """Sums by role, in order of first appearance; a last one over all (`ALL`) if there are several."""
    roles: dict[str, Spent] = defaultdict(Spent)
    for used in usages:
        roles[used.role] += Spent.of(used, prices)
    return {**roles, ALL: sum(roles.values(), Spent())} if len(roles) > 1 else dict(roles)
