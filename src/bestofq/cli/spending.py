"""What a model used outside of any episode, in a line."""

from collections.abc import Iterable, Iterator

from bestofq.core.usage import Usage, merge_usage


def spending(who: str, usage: Iterable[Usage]) -> Iterator[str]:
    """A sentence for each role; an unknown price is said to be unknown, replies that could not be used are counted."""
    for used in merge_usage(usage):
        price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
        lost = f"; {used.unusable:,} of its {used.calls:,} replies named no candidate" if used.unusable else ""
        yield f"{who} read {used.tokens_in:,} tokens and wrote {used.tokens_out:,} ({price}){lost}"


def spending_by_role(usage: Iterable[Usage]) -> Iterator[str]:
    """The same with each role by its name."""
    for used in merge_usage(usage):
        yield from spending(f"the {used.role}", [used])
