"""The booking site's oracle: knows which reservation is right and so what to do anywhere, after mistakes too. Teaches
the pocket model; no agent may import it (an import contract says so).

It asks the user where only the user knows: its demonstrations never guess a seating.
"""

from collections.abc import Iterator

from bestofq.core.actions import Action, AskUser, Click, Submit, Write, element_of
from bestofq.core.observation import Observation
from bestofq_sites.booking.goals import reply
from bestofq_sites.booking.pages import (
    COMPLETE,
    BookingResults,
    BookingVisit,
    Chosen,
    Cities,
    Done,
    Home,
    View,
    Visited,
)
from bestofq_sites.booking.restaurants import RestaurantTable
from bestofq_sites.booking.suite import Booking
from bestofq_sites.booking.writing import clock, long_day, people, short_day
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from experiments.oracles.advice import Advice, click_on, mark_of

Playing = TextEnv[BookingVisit, View | None] | LocalWebEnv[BookingVisit, View | None]
QUESTION = "Which seating do you prefer?"


class BookingOracle:
    """Advice for one task."""

    def __init__(self, suite: Booking, task_id: str) -> None:
        self.goal = suite.goals[task_id]
        self.restaurant = suite.restaurants[self.goal.restaurant_id]
        self.times = suite.tables.nearest(self.restaurant, self.goal.plan)  # the right ones, the best first

    def advise(self, env: Playing, observation: Observation) -> Advice:
        """What to do where the environment is. ValueError after the end."""
        return next(self.advices(env.view, observation))

    def is_right(self, view: View | None, observation: Observation, action: Action) -> bool:
        """Whether the action brings the reservation nearer without a detour, as one who knows it would see it."""
        return any(self._same(action, one.action, observation) for one in self.advices(view, observation))

    def _same(self, action: Action, right: Action, observation: Observation) -> bool:
        """Whether the two do the same: a form can be sent in several ways, a question be asked in many words."""
        match action, right:
            case AskUser(question=question), AskUser():
                return reply(self.goal, question) == reply(self.goal, QUESTION)
            case Write(enter=False), Write(enter=True):
                return action == right.model_copy(update={"enter": False})
        return action == right or _sent(action, observation) == _sent(right, observation) is not None

    def advices(self, view: View | None, observation: Observation) -> Iterator[Advice]:
        """All that is right on this page, the best first. ValueError after the end."""
        match view:
            case Home(city=at):
                yield self._search(at or self.goal.start_city, observation)
            case Cities():
                city = self.restaurant.city
                yield Advice(f"the restaurant is in {city}", click_on(observation, city), f"in {city}")
            case BookingResults(city=at):
                yield self._search(at, observation)
            case Visited(restaurant_id=at) | Chosen(table=RestaurantTable(restaurant_id=at)) if (
                at != self.restaurant.id
            ):
                yield _home(observation, f"this is not {self.restaurant.name}")
            case Visited():
                yield from self._at_restaurant(view, observation)
            case Chosen():
                yield from self._at_table(view, observation)
            case Done():
                raise ValueError("the episode has ended: there is nothing to advise")
            case None:
                yield _home(observation, "this page does not exist")

    def _search(self, city: str, observation: Observation) -> Advice:
        name = self.restaurant.name
        if city != self.restaurant.city:
            thought = f"the restaurant is in {self.restaurant.city}, not {city}"
            return Advice(thought, click_on(observation, "Change city"), "list of cities")
        if any(element.name == name for element in observation.elements):
            return Advice(f"{name} is listed", click_on(observation, name), f"{name} is open")
        field = mark_of(observation, "Restaurant")
        if observation.elements[field - 1].value == name:
            return Advice(f"{name} is typed, search it", Submit(mark=field), "looked for it")
        return Advice(f"find {name}", Write(mark=field, text=name, enter=True), "looked for it")

    def _at_restaurant(self, view: Visited, observation: Observation) -> Iterator[Advice]:
        goal, plan = self.goal, view.plan
        day, party, at = short_day(goal.day), people(goal.party), clock(goal.time)
        match view.page:
            case "calendar":
                month = view.month or plan.day
                if (month.year, month.month) != (goal.day.year, goal.day.month):
                    turn = "Next month" if month < goal.day else "Previous month"
                    yield Advice(f"need {day}, another month", click_on(observation, turn), "another month")
                else:
                    yield Advice(f"the date is {day}", click_on(observation, day), "date set")
            case "times":
                other = (plan.day, plan.party) != (goal.day, goal.party)
                best = [] if other else [time for time in self.times if _has(observation, clock(time))]
                for time in best:
                    free = time == goal.time
                    thought = f"{at} is free" if free else f"{at} is taken, {clock(time)} is nearest"
                    yield Advice(thought, click_on(observation, clock(time)), f"table at {clock(time)}")
                if not best:
                    thought = f"this is not {day} for {party}" if other else f"these times are not near {at}"
                    yield Advice(thought, click_on(observation, "Change search"), "back to the search")
            case "restaurant":
                if plan.party != goal.party:
                    write = Write(mark=mark_of(observation, "Party size"), text=party)
                    yield Advice(f"the party is {party}", write, "party set")
                if plan.day != goal.day:
                    yield Advice(f"need {long_day(goal.day)}", click_on(observation, "Change date"), "calendar")
                if plan.time != goal.time:
                    write = Write(mark=mark_of(observation, "Time"), text=at)
                    yield Advice(f"the time is {at}", write, "time set")
                if plan == goal.plan:
                    find = click_on(observation, "Find a table")
                    yield Advice("party, date and time are right", find, "free tables")

    def _at_table(self, view: Chosen, observation: Observation) -> Iterator[Advice]:
        goal, table = self.goal, view.table
        right = (table.day, table.party) == (goal.day, goal.party) and table.time in self.times
        if not right or (view.page == "details" and table.seating != goal.seating):
            thought = "this table is wrong" if not right else f"the guest wants {goal.seating}"
            yield Advice(thought, click_on(observation, "Change search"), "back to the search")
        elif view.page == "seating":
            assert goal.seating is not None
            if not goal.stated and not any(goal.seating in notice for notice in observation.notices):
                yield Advice("the goal tells no seating, ask", AskUser(question=QUESTION), "asked the user")
            seating = click_on(observation, goal.seating)
            yield Advice(f"the guest wants {goal.seating}", seating, f"{goal.seating} chosen")
        else:
            filled = {element.name: element.value for element in observation.elements}
            sent = {"Name": goal.name, "Phone": goal.phone, "Email": goal.email}
            for field, text in sent.items():
                if filled[field] != text:
                    write = Write(mark=mark_of(observation, field), text=text)
                    yield Advice(f"the {field.lower()} is {text}", write, f"{field.lower()} given")
            if all(filled[field] == text for field, text in sent.items()):
                yield Advice("all is filled in", click_on(observation, COMPLETE), "reserved")


def _sent(action: Action, observation: Observation) -> int | None:
    """The form that the action sends, None for none."""
    element = element_of(action, observation) if isinstance(action, Click | Submit) else None
    return element.form if element and (isinstance(action, Submit) or element.role == "button") else None


def _home(observation: Observation, thought: str) -> Advice:
    return Advice(thought, click_on(observation, "Home"), "back to the start")


def _has(observation: Observation, name: str) -> bool:
    return any(element.name == name for element in observation.elements)
