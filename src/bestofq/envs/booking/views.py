"""Where a visitor can be, as values and as addresses."""

from dataclasses import dataclass
from datetime import date, time
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from bestofq.envs.booking.restaurants import LARGEST_PARTY, Directory, words
from bestofq.envs.booking.tables import Plan, Table, Tables

USUAL_PARTY = 2
USUAL_TIME = time(19)


@dataclass(frozen=True, slots=True)
class Home:
    """The start page; `city` None: where the visit began."""

    city: str | None = None


@dataclass(frozen=True, slots=True)
class Cities:
    """The list of cities."""


@dataclass(frozen=True, slots=True)
class Results:
    city: str
    query: str


@dataclass(frozen=True, slots=True)
class Visited:
    """A page of one restaurant: itself, the calendar's month that holds `month`, or the free times near the plan's."""

    page: Literal["restaurant", "calendar", "times"]
    restaurant_id: str
    plan: Plan
    month: date | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """After a time is chosen: which seating (where there are several), then the guest's details."""

    page: Literal["seating", "details"]
    table: Table
    plan: Plan


@dataclass(frozen=True, slots=True)
class Done:
    """The confirmation."""


View = Home | Cities | Results | Visited | Chosen | Done


def to_url(view: View) -> str:
    """A path with its query, to be put behind the visit's root."""
    match view:
        case Home(city=None):
            return "/"
        case Home(city=city):
            return "/?" + urlencode({"city": city})
        case Cities():
            return "/cities"
        case Results():
            return "/search?" + urlencode({"city": view.city, "q": view.query})
        case Visited():
            query = plan_query(view.plan)
            if view.month is not None:
                query.append(("month", f"{view.month:%Y-%m}"))
            return f"/{view.page}/{view.restaurant_id}?" + urlencode(query)
        case Chosen():
            query = [*plan_query(view.plan), ("at", f"{view.table.time:%H%M}")]
            if view.table.seating is not None:
                query.append(("seating", view.table.seating))
            return f"/{view.page}/{view.table.restaurant_id}?" + urlencode(query)
        case Done():
            return "/done"


def plan_query(plan: Plan) -> list[tuple[str, str]]:
    return [("date", f"{plan.day}"), ("party", f"{plan.party}"), ("time", f"{plan.time:%H%M}")]


def from_url(url: str, directory: Directory, tables: Tables) -> View | None:
    """The view an address stands for; None when the site has no such page. What is left out has its usual value."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    city = query.get("city")
    if city is not None and city not in words().cities:
        return None
    match [part for part in parts.path.split("/") if part]:
        case []:
            return Home(city=city)
        case ["cities"]:
            return Cities()
        case ["search"]:
            return None if city is None else Results(city=city, query=" ".join(query.get("q", "").split()))
        case ["done"]:
            return Done()
        case [page, restaurant_id] if restaurant_id in directory:
            plan = _plan(query, directory, restaurant_id, tables)
            return None if plan is None else _of_restaurant(page, restaurant_id, plan, query, directory, tables)
        case _:
            return None


def usual_plan(tables: Tables) -> Plan:
    """What a restaurant's page shows at first."""
    return Plan(day=tables.first_day, party=USUAL_PARTY, time=USUAL_TIME)


def _plan(query: dict[str, str], directory: Directory, restaurant_id: str, tables: Tables) -> Plan | None:
    usual = usual_plan(tables)
    try:
        day = date.fromisoformat(query["date"]) if "date" in query else usual.day
        at = _time(query["time"]) if "time" in query else usual.time
        party = int(query.get("party", usual.party))
    except ValueError:
        return None
    fits = tables.first_day <= day <= tables.last_day and 1 <= party <= LARGEST_PARTY
    return Plan(day=day, party=party, time=at) if fits and at in directory[restaurant_id].times else None


def _of_restaurant(
    page: str, restaurant_id: str, plan: Plan, query: dict[str, str], directory: Directory, tables: Tables
) -> View | None:
    restaurant = directory[restaurant_id]
    try:
        match page:
            case "restaurant" | "times":
                return Visited(page, restaurant_id, plan)
            case "calendar":
                month = date.fromisoformat(f"{query['month']}-01") if "month" in query else plan.day.replace(day=1)
                inside = tables.first_day.replace(day=1) <= month <= tables.last_day
                return Visited("calendar", restaurant_id, plan, month) if inside else None
        at = _time(query.get("at", ""))
    except ValueError:
        return None
    if not tables.is_free(restaurant, plan.day, plan.party, at):
        return None
    several, seating = len(restaurant.seatings) > 1, query.get("seating")
    table = Table(restaurant_id=restaurant_id, day=plan.day, party=plan.party, time=at, seating=seating)
    if page == "seating" and several and seating is None:
        return Chosen("seating", table, plan)
    if page == "details" and (seating in restaurant.seatings if several else seating is None):
        return Chosen("details", table, plan)
    return None


def _time(text: str) -> time:
    """`1930`. ValueError for anything else."""
    if len(text) != 4 or not text.isdecimal():
        raise ValueError(text)
    return time(int(text[:2]), int(text[2:]))
