"""Table reservations as a suite of tasks: Agent Q's booking experiment (6.1) on a local site.

Train, dev and test each have their own site with their own restaurants.
"""

from importlib.resources import files
from itertools import chain

from bestofq.core.actions import Action, Click, Submit, Write
from bestofq.core.observation import Element, Split, Task
from bestofq.envs.splits import split_of
from bestofq_sites.booking.goals import BookingGoal, make_goals, reply
from bestofq_sites.booking.pages import COMPLETE, DETAILS, BookingServer, BookingVisit, Details, Reservation, View
from bestofq_sites.booking.restaurants import Directory, Tables, make_restaurants
from bestofq_sites.booking.settings import BookingSettings
from bestofq_sites.local_site.rules import Rules

STEP_LIMIT = 30


class Booking(Rules[BookingGoal, BookingVisit, View | None]):
    """Goals and sites. Agents get `tasks`; goals stay here."""

    name = "booking"
    step_limit = STEP_LIMIT
    style = files(__package__).joinpath("site.css").read_text("utf-8")

    def __init__(self, seed: int = 2026) -> None:
        self.tables = Tables(seed)
        self.restaurants = Directory((r.id, r) for r in make_restaurants(seed))  # of all splits
        self._servers: dict[Split, BookingServer] = {}
        each = (make_goals(restaurant, self.tables, seed) for restaurant in self.restaurants.values())
        super().__init__(chain.from_iterable(each), seed)

    def goals_of(self, split: Split) -> list[BookingGoal]:
        return [goal for goal in self.goals.values() if split_of(goal.restaurant_id, self.seed) == split]

    def server(self, split: Split) -> BookingServer:
        if split not in self._servers:
            mine = ((r.id, r) for r in self.restaurants.values() if split_of(r.id, self.seed) == split)
            self._servers[split] = BookingServer(Directory(mine), self.tables)
        return self._servers[split]

    def visit(self, task: Task) -> BookingVisit:
        return BookingVisit(city=self.goals[task.id].start_city)

    def is_over(self, visit: BookingVisit) -> bool:
        return visit.reservation is not None

    def reply(self, task: Task, question: str) -> str:
        return reply(self.goals[task.id], question)

    def criteria(self, task: Task, made: Reservation) -> dict[str, bool]:
        """The paper's criteria (6.1), of which the fourth is that something is reserved. A seating that the guest
        prefers counts as information of the guest's; at another restaurant no table is set for the date and time."""
        goal, table = self.goals[task.id], made.table
        right = self.tables.nearest(self.restaurants[goal.restaurant_id], goal.plan)
        same_guest = _comparison_key(made.details) == _comparison_key(goal)
        return {
            "date and time": (table.restaurant_id, table.day) == (goal.restaurant_id, goal.day) and table.time in right,
            "party size": table.party == goal.party,
            "user information": goal.seating in (None, table.seating) and same_guest,
        }

    def reward(self, task: Task, visit: BookingVisit) -> float:
        """1 where the right reservation was made, else 0 (sparse, as the paper's)."""
        made = visit.reservation
        return float(made is not None and all(self.criteria(task, made).values()))

    def commits(self, action: Action, element: Element) -> bool:
        """Whether it makes the reservation, if its form is filled in."""
        match action:
            case Click():
                return element.role == "button" and element.name == COMPLETE
            case Submit() | Write(enter=True):
                return element.name in (*DETAILS, COMPLETE) and element.form is not None
        return False


def build_booking(settings: BookingSettings) -> Booking:
    return Booking(settings.seed)


def _comparison_key(guest: Details | BookingGoal) -> tuple[str, str, str]:
    return guest.name.casefold(), "".join(filter(str.isdecimal, guest.phone)), guest.email.casefold()
