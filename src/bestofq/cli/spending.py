"""What a model used outside of any episode, in a line."""

from collections.abc import Iterable, Iterator

from bestofq.core.decision import Usage
from bestofq.core.usage import merge_usage


def spending(who: str, usage: Iterable[Usage]) -> Iterator[str]:
    """A sentence for each role; an unknown price is said to be unknown."""
    for used in merge_usage(usage):
        price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
        yield f"{who} read {used.tokens_in:,} tokens and wrote {used.tokens_out:,} ({price})"


def spending_by_role(usage: Iterable[Usage]) -> Iterator[str]:
    """The same with each role by its name."""
    for used in merge_usage(usage):
        yield from spending(f"the {used.role}", [used])
