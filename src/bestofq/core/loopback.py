"""The names by which a machine calls itself. A page elsewhere has another, even where it leads to 127.0.0.1."""

import re

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def own_host(*more: str) -> re.Pattern[str]:
    """What a `Host` header may be: a loopback name or one of `more`, with a port or without."""
    names = "|".join(map(re.escape, (*LOOPBACK, *more)))
    return re.compile(rf"(?:{names})(?::\d+)?", re.ASCII | re.IGNORECASE)
