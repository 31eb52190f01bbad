"""Past dates in a task's text, to the month. A month and day without a year may be in the future."""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import date
from typing import NamedTuple

from bestofq.core.observation import Task

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(
    rf"(?:\b(?P<month>{'|'.join(_MONTHS)})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\b\.?(?:[\s\d,–-]|(?<=\d)(?:st|nd|rd|th))*(?<=[\s,]))?"
    # a number is a year only if nothing counts or prices it
    r"(?<![\w$€£¥#.-])(?<!\d,)(?<!than )(?<!least )(?<!most )(?<!over )(?<!under )(?<!about )"
    r"(?P<year>(?:19|20)\d\d)(?:-(?P<number>0[1-9]|1[0-2])-\d\d)?(?![\w%]|[.,]\d|[-–/]\d)",
    re.IGNORECASE,
)


class Stale(NamedTuple):
    """A task and a past date that it names: its `words`, and the `last` day of its month or year."""

    task: Task
    words: str
    last: date


def stale(tasks: Iterable[Task], today: date) -> list[Stale]:
    """The tasks that name a date before `today`, each with its oldest. Some can still be done: a booking cannot, a
    search for what was published then can."""
    named = ([Stale(task, words, last) for words, last in dates(task.goal) if last < today] for task in tasks)
    return [min(past, key=lambda entry: entry.last) for past in named if past]


def dates(text: str) -> Iterator[tuple[str, date]]:
    """The dates with a year in a text: the words, and the last day of the month, or of a year without a month."""
    for match in _DATE.finditer(text):
        month, year = match["month"], int(match["year"])
        number = _MONTHS.index(month.lower()) + 1 if month else int(match["number"] or 12)
        yield match.group(), date(year, number, monthrange(year, number)[1])
