"""What a local site is made of. All its records are values: an episode is put back by its earlier record."""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from pydantic import Field

from bestofq.core.actions import Action, Click, Submit, Write, amounts_to, element_of
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Element, Observation, Split, Task
from bestofq_sites.local_site.page import Page

VisitT = TypeVar("VisitT")
"""The site's record of one episode, immutable."""
ViewT = TypeVar("ViewT")
"""Where a visitor is, as the site names it."""
ViewT_co = TypeVar("ViewT_co", covariant=True)


class SiteServer(Protocol[VisitT, ViewT_co]):
    """Answers requests; keeps nothing itself. Addresses begin behind the visit's root, with `/`."""

    def address(self, url: str) -> str | None:
        """The address as the site itself writes it; None where it is none of this site's."""
        return url if url.startswith("/") else None

    def view(self, visit: VisitT, url: str) -> ViewT_co:
        """What stands at an address."""

    def get(self, visit: VisitT, url: str) -> tuple[VisitT, Page]:
        """The visit after its page at an address was shown, and that page."""

    def post(self, visit: VisitT, url: str, sent: Mapping[str, str]) -> tuple[VisitT, str]:
        """The visit after a form was sent to an address, and the address of the answer."""


class Goal(FrozenModel):
    """What a task really asks for. Rewards, users and oracles read it; agents read the instruction alone."""

    id: str
    instruction: str = Field(description="the whole sentence an agent reads")


GoalT = TypeVar("GoalT", bound=Goal)


class Rules(ABC, Generic[GoalT, VisitT, ViewT_co]):
    """A site with its tasks: a server for each split, what ends an episode, what it earns."""

    name: str  # of the suite of tasks
    step_limit: int
    style: str  # CSS of every page

    def __init__(self, goals: Iterable[GoalT], seed: int) -> None:
        """`seed`: of the splits, and of the order of tasks."""
        self.goals = {goal.id: goal for goal in goals}
        self.seed = seed
        self._tasks: dict[Split, list[Task]] = {}

    def tasks(self, split: Split, limit: int | None = None) -> list[Task]:
        """The tasks of a split in a fixed order whose first k are a fair sample. InputError where there are none."""
        if split not in self._tasks:
            make = partial(Task, suite=self.name, start_url="/", seed=self.seed, split=split)
            tasks = [
                make(id=goal.id, goal=goal.instruction, group=re.split("/|-[^-]*$", goal.id)[0])
                for goal in self.goals_of(split)
            ]
            random.Random(f"tasks-{self.seed}-{split}").shuffle(tasks)
            self._tasks[split] = tasks
        return self._tasks[split][:limit]

    def reply(self, task: Task, question: str) -> str | None:
        """What the task's user answers; None where there is no user."""
        return None

    @abstractmethod
    def goals_of(self, split: Split) -> Sequence[GoalT]:
        """In a fixed order. InputError where the split has none."""

    @abstractmethod
    def server(self, split: Split) -> SiteServer[VisitT, ViewT_co]: ...

    @abstractmethod
    def visit(self, task: Task) -> VisitT:
        """The record at the beginning of an episode."""

    @abstractmethod
    def is_over(self, visit: VisitT) -> bool:
        """Whether the visitor has done what ends an episode."""

    @abstractmethod
    def reward(self, task: Task, visit: VisitT) -> float:
        """What the visit has earned, in [0, 1]."""

    def irreversible(self, observation: Observation, action: Action) -> bool:
        """Whether the action cannot be taken back on a site of somebody else's, so that no search may try it there."""
        action = amounts_to(action, observation)
        element = element_of(action, observation) if isinstance(action, Click | Submit | Write) else None
        return element is not None and self.commits(action, element)

    @abstractmethod
    def commits(self, action: Action, element: Element) -> bool:
        """Whether the click, write or submission on the element does what ends an episode."""
