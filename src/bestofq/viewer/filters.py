"""What an address requests; a sentence answers a wrong one."""

from dataclasses import dataclass, replace
from typing import Any, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from bestofq.core.decision import Outcome
from bestofq.store.filter import EpisodeFilter
from bestofq.viewer.pages import address

OUTCOMES = (*get_args(Outcome), "running", "interrupted")
_FILTERS = ("run", "agent", "suite", "outcome", "domain", "find")


def text(request: Request, name: str) -> str | None:
    """A parameter; None where it is missing or empty."""
    return request.query_params.get(name) or None


def require_parameter(request: Request, name: str) -> str:
    """A parameter without which there is no such page (404)."""
    if (value := text(request, name)) is None:
        raise HTTPException(404, f"The address lacks its {name!r}.")
    return value


def whole(request: Request, name: str, default: int, *, least: int = 0) -> int:
    """A whole number (404 where it is none, or below `least`)."""
    value = text(request, name)
    if value is None:
        return default
    if not value.isdecimal() or len(value) > 9 or int(value) < least:
        raise HTTPException(404, f"{name} is {value!r}: give a whole number from {least}.")
    return int(value)


def share(request: Request, name: str, default: float) -> float:
    """A number in [0, 1] (404 where it is none)."""
    value = text(request, name)
    try:
        given = default if value is None else float(value)
    except ValueError:
        given = -1.0
    if not 0 <= given <= 1:
        raise HTTPException(404, f"{name} is {value!r}: give a number from 0 to 1.")
    return given


def query_of(filters: EpisodeFilter) -> dict[str, str]:
    """The parameters of an address that narrow a list to these episodes; inverse of `parse_filter`."""
    return {name: value for name in _FILTERS if (value := getattr(filters, name)) is not None}


def parse_filter(request: Request) -> EpisodeFilter:
    """The episodes that an address narrows a list to (404 on an outcome that is none)."""
    given: dict[str, Any] = {name: text(request, name) for name in _FILTERS}
    if given["outcome"] not in (None, *OUTCOMES):
        raise HTTPException(404, f"There is no outcome {given['outcome']!r}: there are {', '.join(OUTCOMES)}.")
    return replace(report_filter(request), **given)


def report_filter(request: Request) -> EpisodeFilter:
    """The episodes that these pages are about: all, or those that a report was made of."""
    if (report := request.app.state.report) is None:
        return EpisodeFilter()
    return EpisodeFilter(runs=report.read.runs, agents=report.read.agents, split=report.read.split)


@dataclass(frozen=True, kw_only=True)
class PagePart:
    """One page of a long list, counted from 1."""

    path: str
    query: dict[str, str]
    number: int
    size: int
    count: int

    @classmethod
    def of(cls, request: Request, count: int, size: int) -> "PagePart":
        """The part that the address names; 404 past the end."""
        number = whole(request, "page", 1, least=1)
        query = {key: value for key, value in request.query_params.items() if key != "page"}
        part = cls(path=request.url.path, query=query, number=number, size=size, count=count)
        if number > part.last:
            raise HTTPException(404, f"There is no page {number}: the last one is {part.last}.")
        return part

    @property
    def last(self) -> int:
        return max(1, -(-self.count // self.size))

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.size

    @property
    def words(self) -> str:
        """`51–100 of 1,234`."""
        end = min(self.count, self.offset + self.size)
        return f"{self.offset + 1:,}–{end:,} of {self.count:,}" if self.count else "none"

    def to(self, number: int) -> str | None:
        """The address of another part; None where there is none."""
        if not 1 <= number <= self.last:
            return None
        return address(self.path, **self.query, page=None if number == 1 else number)
