"""Which episodes: what lists, reports and pages are narrowed by."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, not_, or_

from bestofq.store.schema import EPISODES, Status

_EXACT = ("run", "agent", "suite", "split", "task", "status")


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeFilter:
    """Which episodes; None: any."""

    run: str | None = None
    agent: str | None = None
    suite: str | None = None
    split: str | None = None
    task: str | None = None  # Task.id
    status: Status | None = None
    domain: str | None = None  # the part of a task id before its last `--`, or else before its last `/`
    outcome: str | None = None  # an Outcome, or the status `running` or `interrupted`
    find: str | None = None  # a part of task ids
    task_keys: Sequence[bytes] | None = None  # or, with `find`, one of these tasks (`Catalogue.found`)
    runs: Sequence[str] | None = None  # one of these
    agents: Sequence[str] | None = None

    @property
    def clauses(self) -> list[ColumnElement[bool]]:
        """What a query over the episodes' table is narrowed by."""
        found = [EPISODES.c[name] == value for name in _EXACT if (value := getattr(self, name)) is not None]
        found += [EPISODES.c[n[:-1]].in_(some) for n in ("runs", "agents") if (some := getattr(self, n)) is not None]
        if self.domain is not None:
            found.append(_of_domain(self.domain))
        if self.outcome in ("running", "interrupted"):
            found.append(EPISODES.c.status == self.outcome)
        elif self.outcome is not None:
            found.append(EPISODES.c.outcome == self.outcome)
        if self.find is not None:
            named = EPISODES.c.task.icontains(self.find, autoescape=True)
            found.append(or_(named, EPISODES.c.task_key.in_(self.task_keys or ())))
        return found


def _of_domain(domain: str) -> ColumnElement[bool]:
    task, rest = EPISODES.c.task, func.substr(EPISODES.c.task, len(domain) + 2)  # from within the mark on

    def begins(mark: str) -> ColumnElement[bool]:
        return func.substr(task, 1, len(domain + mark)) == domain + mark

    slashed = and_(begins("/"), not_(rest.contains("/")), not_(task.contains("--")))
    return or_(and_(begins("--"), not_(rest.contains("--"))), slashed)
