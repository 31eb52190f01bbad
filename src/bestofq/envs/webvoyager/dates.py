"""Certain dates in a task's text. A month and day without a year may be in the future."""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import date
from typing import NamedTuple

from bestofq.core.observation import Task

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_LATER_DAY = r"(?:\d{1,2}(?:st|nd|rd|th)?\s*[-–]\s*)?"  # of `14-21`, the second is the last
_PATTERNS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"(?<!\d){_YEAR}-(?P<number>\d\d)-(?P<day>\d\d)(?!\d)",
        rf"(?<!\d)(?P<first>\d{{1,2}})/(?P<second>\d{{1,2}})/{_YEAR}",
        rf"\b{MONTH}\s+{_LATER_DAY}{_DAY},?\s+{_YEAR}",
        rf"(?<!\d){_DAY}\s+(?:of\s+)?{MONTH},?\s+{_YEAR}",
        rf"\b{MONTH},?\s+{_YEAR}",
        r"(?<![\w.,$€£])(?P<from>(?:19|20)\d\d)\s*[-–/]\s*(?P<until>(?:(?:19|20)\d)?\d\d?)(?![\w%])",
        # a number alone is a year only where nothing counts or prices it
        r"(?<![\w$€£¥#.,-])(?<!than )(?<!least )(?<!most )(?<!over )(?<!under )(?<!about )"
        + _YEAR
        + r"(?![\w%]|[.,]\d)",
    )
)


class Stale(NamedTuple):
    """A task and a past date that it names: its `words`, and the `last` day they can mean."""

    task: Task
    words: str
    last: date


def stale(tasks: Iterable[Task], today: date) -> list[Stale]:
    """The tasks that name a date before `today`, each with its oldest. Some can still be done: a booking cannot, a
    search for what was published then can."""
    found = []
    for task in tasks:
        past = [Stale(task, words, last) for words, last in dates(task.goal) if last < today]
        if past:
            found.append(min(past, key=lambda entry: entry.last))
    return found


def dates(text: str) -> Iterator[tuple[str, date]]:
    """The dates with a year in a text: the words, and the last day they can mean (for a year, its last)."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if (last := _last_day(match.groupdict())) is not None:
                yield match.group(), last
        text = pattern.sub(lambda match: " " * len(match.group()), text)


def _last_day(parts: dict[str, str | None]) -> date | None:
    """None if there is no such day."""
    if until := parts.get("until"):
        since = str(parts["from"])
        year = int(since[: 4 - len(until)] + until)
        return date(year, 12, 31) if year > int(since) else None
    year = int(str(parts["year"]))
    if first := parts.get("first"):  # 3/4/2026 is the 3rd of April or the 4th of March: the later of those that exist
        pairs = [(int(first), int(str(parts["second"])))]
        pairs.append(pairs[0][::-1])
        days = [date(year, month, day) for day, month in pairs if _exists(year, month, day)]
        return max(days, default=None)
    month = parts.get("month")
    number = _NAMES.index(month[:3].lower()) + 1 if month else int(parts.get("number") or 12)
    if (day := parts.get("day")) is None:
        return date(year, number, monthrange(year, number)[1])
    return date(year, number, int(day)) if _exists(year, number, int(day)) else None


def _exists(year: int, month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
