"""Errors keep what models had used before them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bestofq.core.errors import BestOfQError
from bestofq.core.usage import Usage, merge_usage


@contextmanager
def attach_usage(usage: Iterable[Usage]) -> Iterator[None]:
    """Adds `usage`, which may grow inside, to that of an error of ours that leaves: what was paid for is not lost."""
    try:
        yield
    except BestOfQError as error:
        error.usage = merge_usage((*usage, *error.usage))
        raise
