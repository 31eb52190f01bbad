"""Table reservations as a suite of tasks: Agent Q's booking experiment (6.1) on a local site.

Split by restaurant: train, dev and test each have their own site with their own restaurants, so that no restaurant of
one is ever seen or asked for in another.
"""

import random
from functools import cached_property, lru_cache
from importlib.resources import files

from bestofq.core.actions import Action, Click, Submit, Write
from bestofq.core.errors import InputError
from bestofq.core.irreversible import element_of
from bestofq.core.noun import Noun
from bestofq.core.observation import Observation, Split, Task
from bestofq.envs.booking.goals import Goal, make_goals, reply
from bestofq.envs.booking.pages import COMPLETE, DETAILS, Server
from bestofq.envs.booking.restaurants import BookingConfig, Directory, make_restaurants
from bestofq.envs.booking.settings import BookingSettings
from bestofq.envs.booking.tables import Tables
from bestofq.envs.booking.views import Visit
from bestofq.envs.local_site.rules import Wording
from bestofq.envs.splits import split_of

STEP_LIMIT = 30


class Criteria(Noun):
    """The paper's four (6.1). All must hold; a seating that the guest prefers counts as information of the guest's, the
    restaurant with date and time: at another one, no table is set for then."""

    date_and_time: bool = False
    party_size: bool = False
    user_information: bool = False
    completed: bool = False

    @property
    def reward(self) -> float:
        return float(self.date_and_time and self.party_size and self.user_information and self.completed)


class Booking:
    """Goals and sites (`local_site.rules.Rules`). Agents get `tasks`; goals stay here."""

    name = "booking"
    step_limit = STEP_LIMIT
    style = files(__package__).joinpath("site.css").read_text("utf-8")
    wording = Wording()

    def __init__(self, config: BookingConfig | None = None) -> None:
        self.config = config or BookingConfig()
        self.tables = Tables(self.config)
        self._servers: dict[Split, Server] = {}
        self._tasks: dict[Split, list[Task]] = {}

    @cached_property
    def restaurants(self) -> Directory:
        """Of all splits."""
        return Directory((r.id, r) for r in make_restaurants(self.config))

    @cached_property
    def _goals(self) -> dict[str, Goal]:
        return {goal.id: goal for r in self.restaurants.values() for goal in make_goals(r, self.tables, self.config)}

    def tasks(self, split: Split, limit: int | None = None) -> list[Task]:
        """The tasks of a split in a fixed shuffled order, so that the first k are a fair sample.

        InputError where the split has none.
        """
        if split not in self._tasks:
            seed = self.config.seed
            goals = [goal for goal in self._goals.values() if split_of(goal.restaurant_id, seed) == split]
            if not goals:
                raise InputError(
                    f"{self.name} has no {split} tasks among {self.config.restaurants} restaurants: ask more"
                )
            random.Random(f"tasks-{seed}-{split}").shuffle(goals)
            self._tasks[split] = [
                Task(id=goal.id, suite=self.name, goal=goal.instruction, start_url="/", seed=seed, split=split)
                for goal in goals
            ]
        return self._tasks[split][:limit]

    def goal(self, task_id: str) -> Goal:
        """What the task's guest really asks for."""
        return self._goals[task_id]

    def server(self, split: Split) -> Server:
        if split not in self._servers:
            mine = ((r.id, r) for r in self.restaurants.values() if split_of(r.id, self.config.seed) == split)
            self._servers[split] = Server(Directory(mine), self.tables)
        return self._servers[split]

    def visit(self, task: Task) -> Visit:
        return Visit(city=self.goal(task.id).start_city)

    def ended(self, visit: Visit) -> bool:
        return visit.reservation is not None

    def reply(self, task: Task, question: str) -> str:
        return reply(self.goal(task.id), question)

    def criteria(self, task: Task, visit: Visit) -> Criteria:
        """Which criteria hold, by the site's record: of the reservation, or before it of the table held last."""
        goal = self.goal(task.id)
        made = visit.reservation
        table, details = (visit.held, visit.draft) if made is None else (made.table, made.details)
        right = self.tables.nearest(self.restaurants[goal.restaurant_id], goal.plan)
        return Criteria(
            date_and_time=table is not None
            and table.restaurant_id == goal.restaurant_id
            and table.day == goal.day
            and table.time in right,
            party_size=table is not None and table.party == goal.party,
            user_information=table is not None
            and details is not None
            and goal.seating in (None, table.seating)
            and details.name.casefold() == goal.name.casefold()
            and _digits(details.phone) == _digits(goal.phone)
            and details.email.casefold() == goal.email.casefold(),
            completed=made is not None,
        )

    def reward(self, task: Task, visit: Visit) -> float:
        """1 where the right reservation was made, else 0 (sparse, as the paper's)."""
        return self.criteria(task, visit).reward

    def irreversible(self, observation: Observation, action: Action) -> bool:
        """Whether the action makes the reservation, if its form is filled in: what a search must not try out where
        nothing can be put back."""
        if not isinstance(action, Click | Submit | Write):
            return False
        element = element_of(action, observation)
        if element is None:
            return False
        if isinstance(action, Click):
            return element.role == "button" and element.name == COMPLETE
        sends = isinstance(action, Submit) or action.enter
        return sends and element.name in (*DETAILS, COMPLETE) and element.form is not None


def booking(settings: BookingSettings) -> Booking:
    return _made(settings.seed)


@lru_cache(2)
def _made(seed: int) -> Booking:
    """It never changes and takes most of a second to make: all that use it share it."""
    return Booking(BookingConfig(seed=seed))


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdecimal())
