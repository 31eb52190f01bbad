"""What an address requests; a sentence answers a wrong one."""

from dataclasses import replace
from typing import Any, NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from bestofq.core.decision import Outcome
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store

OUTCOMES = (*get_args(Outcome), "running", "interrupted")
_FILTERS = ("run", "agent", "suite", "outcome", "find")


def text(request: Request, name: str) -> str | None:
    return request.query_params.get(name) or None


def require_parameter(request: Request, name: str) -> str:
    """A parameter without which there is no such page (404)."""
    if (value := text(request, name)) is None:
        raise HTTPException(404, f"The address lacks its {name!r}.")
    return value


def share(request: Request, name: str, default: float) -> float:
    """A number in [0, 1] (404 if it is none)."""
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


def filter_context(store: Store, filters: EpisodeFilter) -> dict[str, Any]:
    """What a page needs to show and change its filters."""
    choices = store.catalogue.choices(run=filters.run)
    return {"filters": filters, "query": query_of(filters), "choices": choices, "outcomes": OUTCOMES}


def report_filter(request: Request) -> EpisodeFilter:
    """The episodes that these pages are about: all, or those that a report was made of."""
    if (report := request.app.state.report) is None:
        return EpisodeFilter()
    return EpisodeFilter(runs=report.read.runs, agents=report.read.agents, split=report.read.split)


class PagePart(NamedTuple):
    """One page of a long list, counted from 1."""

    path: str
    query: dict[str, str]
    number: int
    size: int
    total: int

    @classmethod
    def of(cls, request: Request, total: int, size: int) -> "PagePart":
        """The part that the address names; 404 if there is none."""
        query = dict(request.query_params)
        page = query.pop("page", "") or "1"
        part = cls(request.url.path, query, int(page) if page.isdecimal() and len(page) < 10 else 0, size, total)
        if not 1 <= part.number <= part.last:
            raise HTTPException(404, f"There is no page {page!r}: give a whole number from 1 to {part.last}.")
        return part

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.size
