"""What models have used (`Usage`), and its sum by role."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field

from bestofq.core.errors import BestOfQError
from bestofq.core.frozen import FrozenModel

MOST_TOKENS = 100_000_000  # of one call: no context is as long

Role = Literal["proposer", "localizer", "embedder", "critic", "judge", "user"]


class Usage(FrozenModel):
    """What one role has used. A price that is not known is None, never 0."""

    role: Role
    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    unusable: int | None = Field(default=None, description="rankings, choices, reviews whose reply names none")
    seconds: float = 0.0
    usd: float | None = None


def token_count(said: object) -> int | None:
    """What an endpoint says it has counted, None where that can be no count of one call's tokens."""
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= MOST_TOKENS else None


def merge_usage(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """One `Usage` a role, in order of first appearance; a role's price is None as soon as one of its prices is."""
    merged: dict[Role, Usage] = {}
    for usage in usages:
        before = merged.get(usage.role)
        merged[usage.role] = usage if before is None else _sum(before, usage)
    return tuple(merged.values())


def _sum(a: Usage, b: Usage) -> Usage:
    counts = {name: getattr(a, name) + getattr(b, name) for name in ("tokens_in", "tokens_out", "calls", "seconds")}
    usd = None if a.usd is None or b.usd is None else a.usd + b.usd
    return Usage(role=a.role, unusable=((a.unusable or 0) + (b.unusable or 0)) or None, usd=usd, **counts)


@contextmanager
def attach_usage(usage: Iterable[Usage]) -> Iterator[None]:
    """Add `usage`, which may grow inside, to that of an error of ours that leaves: what was paid for is not lost."""
    try:
        yield
    except BestOfQError as error:
        error.usage = merge_usage((*usage, *error.usage))
        raise
