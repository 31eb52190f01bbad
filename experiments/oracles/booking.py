"""The booking site's oracle: knows which reservation is right and so what to do anywhere, after mistakes too. Teaches
the pocket model; no agent may import it (an import contract says so).

It asks the user where only the user knows: its demonstrations never guess a seating.
"""

from bestofq.core.actions import AskUser, Submit, Write
from bestofq.core.observation import Observation
from bestofq.envs.booking.pages import COMPLETE
from bestofq.envs.booking.suite import Booking
from bestofq.envs.booking.views import Chosen, Cities, Done, Home, Results, View, Visit, Visited
from bestofq.envs.booking.writing import clock, long_day, people, short_day
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.local_site.web import LocalWebEnv
from experiments.oracles.advice import Advice, click_on, mark_of

Playing = TextEnv[Visit, View | None] | LocalWebEnv[Visit, View | None]
QUESTION = "Which seating do you prefer?"


class BookingOracle:
    """Advice for one task."""

    def __init__(self, suite: Booking, task_id: str) -> None:
        self.goal = suite.goal(task_id)
        self.restaurant = suite.restaurants[self.goal.restaurant_id]
        self.times = suite.tables.nearest(self.restaurant, self.goal.plan)  # the right ones, the best first

    def advise(self, env: Playing, observation: Observation) -> Advice:
        """What to do where the environment is. ValueError after the end."""
        name, city = self.restaurant.name, self.restaurant.city
        match env.view:
            case Home(city=at):
                return self._search(at or env.visit.city, observation)
            case Cities():
                return Advice(f"the restaurant is in {city}", click_on(observation, city), f"in {city}")
            case Results(city=at):
                return self._search(at, observation)
            case Visited(restaurant_id=at) if at != self.restaurant.id:
                return _home(observation, f"this is not {name}")
            case Visited() as view:
                return self._at_restaurant(view, observation)
            case Chosen(table=table) as view:
                if table.restaurant_id != self.restaurant.id:
                    return _home(observation, f"this is not {name}")
                return self._at_table(view, observation)
            case Done():
                raise ValueError("the episode has ended: there is nothing to advise")
            case None:
                return _home(observation, "this page does not exist")

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

    def _at_restaurant(self, view: Visited, observation: Observation) -> Advice:
        goal, plan = self.goal, view.plan
        day, party, at = short_day(goal.day), people(goal.party), clock(goal.time)
        match view.page:
            case "calendar":
                month = view.month or plan.day
                if (month.year, month.month) != (goal.day.year, goal.day.month):
                    turn = "Next month" if month < goal.day else "Previous month"
                    return Advice(f"need {day}, another month", click_on(observation, turn), "another month")
                return Advice(f"the date is {day}", click_on(observation, day), "date set")
            case "times":
                other = (plan.day, plan.party) != (goal.day, goal.party)
                best = None if other else next((t for t in self.times if _has(observation, clock(t))), None)
                if best is None:
                    thought = f"this is not {day} for {party}" if other else f"these times are not near {at}"
                    return Advice(thought, click_on(observation, "Change search"), "back to the search")
                free = best == goal.time
                thought = f"{at} is free" if free else f"{at} is taken, {clock(best)} is nearest"
                return Advice(thought, click_on(observation, clock(best)), f"table at {clock(best)}")
            case "restaurant":
                if plan.party != goal.party:
                    write = Write(mark=mark_of(observation, "Party size"), text=party)
                    return Advice(f"the party is {party}", write, "party set")
                if plan.day != goal.day:
                    thought = f"need {long_day(goal.day)}"
                    return Advice(thought, click_on(observation, "Change date"), "calendar")
                if plan.time != goal.time:
                    write = Write(mark=mark_of(observation, "Time"), text=at)
                    return Advice(f"the time is {at}", write, "time set")
                return Advice("party, date and time are right", click_on(observation, "Find a table"), "free tables")

    def _at_table(self, view: Chosen, observation: Observation) -> Advice:
        goal, table = self.goal, view.table
        right = (table.day, table.party) == (goal.day, goal.party) and table.time in self.times
        if not right or (view.page == "details" and table.seating != goal.seating):
            thought = "this table is wrong" if not right else f"the guest wants {goal.seating}"
            return Advice(thought, click_on(observation, "Change search"), "back to the search")
        if view.page == "seating":
            assert goal.seating is not None
            if not goal.stated and not any(goal.seating in notice for notice in observation.notices):
                return Advice("the goal tells no seating, ask", AskUser(question=QUESTION), "asked the user")
            thought = f"the guest wants {goal.seating}"
            return Advice(thought, click_on(observation, goal.seating), f"{goal.seating} chosen")
        for field, text in (("Name", goal.name), ("Phone", goal.phone), ("Email", goal.email)):
            mark = mark_of(observation, field)
            if observation.elements[mark - 1].value != text:
                write = Write(mark=mark, text=text)
                return Advice(f"the {field.lower()} is {text}", write, f"{field.lower()} given")
        return Advice("all is filled in", click_on(observation, COMPLETE), "reserved")


def _home(observation: Observation, thought: str) -> Advice:
    return Advice(thought, click_on(observation, "Home"), "back to the start")


def _has(observation: Observation, name: str) -> bool:
    return any(element.name == name for element in observation.elements)
