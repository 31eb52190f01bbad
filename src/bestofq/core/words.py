"""Counts in sentences."""


def plural(noun: str, count: int) -> str:
    """`episode` for one, `episodes` for other numbers."""
    if count == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def count_of(count: int, noun: str) -> str:
    """`1 episode`, `1,200 episodes`."""
    return f"{count:,} {plural(noun, count)}"
