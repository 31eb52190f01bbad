"""Where a visitor can be, as values and as addresses; and what the site knows of a visit."""

from dataclasses import dataclass
from datetime import date, time
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from bestofq_sites.booking.restaurants import (
    FIRST_DAY,
    LARGEST_PARTY,
    LAST_DAY,
    WORDS,
    Directory,
    Plan,
    Restaurant,
    RestaurantTable,
    Tables,
)

USUAL_PLAN = Plan(day=FIRST_DAY, party=2, time=time(19))
"""What a restaurant's page shows at first."""


@dataclass(frozen=True, slots=True)
class Home:
    """The start page; `city` None: where the visit began."""

    city: str | None = None


@dataclass(frozen=True, slots=True)
class Cities:
    """The list of cities."""


@dataclass(frozen=True, slots=True)
class BookingResults:
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
    table: RestaurantTable
    plan: Plan


@dataclass(frozen=True, slots=True)
class Done:
    """The confirmation."""


View = Home | Cities | BookingResults | Visited | Chosen | Done


def to_url(view: View) -> str:
    """A path with its query, to be put behind the visit's root."""
    match view:
        case Home(city=None):
            return "/"
        case Home(city=city):
            return "/?" + urlencode({"city": city})
        case Cities():
            return "/cities"
        case BookingResults():
            return "/search?" + urlencode({"city": view.city, "q": view.query})
        case Visited(month=month):
            shown = [] if month is None else [("month", f"{month:%Y-%m}")]
            return f"/{view.page}/{view.restaurant_id}?" + urlencode(plan_query(view.plan) + shown)
        case Chosen(table=table):
            seating = [] if table.seating is None else [("seating", table.seating)]
            query = [*plan_query(view.plan), ("at", f"{table.time:%H%M}"), *seating]
            return f"/{view.page}/{table.restaurant_id}?" + urlencode(query)
        case Done():
            return "/done"


def plan_query(plan: Plan) -> list[tuple[str, str]]:
    return [("date", f"{plan.day}"), ("party", f"{plan.party}"), ("time", f"{plan.time:%H%M}")]


def from_url(url: str, directory: Directory, tables: Tables) -> View | None:
    """The view at an address. None if the site has no such page. Parts that are left out have their usual values."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    city = query.get("city")
    if city is not None and city not in WORDS["cities"]:
        return None
    try:
        match [part for part in parts.path.split("/") if part]:
            case []:
                return Home(city)
            case ["cities"]:
                return Cities()
            case ["search"] if city is not None:
                return BookingResults(city, " ".join(query.get("q", "").split()))
            case ["done"]:
                return Done()
            case [page, restaurant_id] if restaurant_id in directory:
                return _of_restaurant(page, directory[restaurant_id], query, tables)
    except ValueError:  # a date, a time or a number that is none
        pass
    return None


def _of_restaurant(page: str, restaurant: Restaurant, query: dict[str, str], tables: Tables) -> View | None:
    usual = dict(plan_query(USUAL_PLAN)) | query
    plan = Plan(
        day=date.fromisoformat(usual["date"]), party=int(usual["party"]), time=time.fromisoformat(usual["time"])
    )
    fits = FIRST_DAY <= plan.day <= LAST_DAY and 1 <= plan.party <= LARGEST_PARTY
    if not fits or plan.time not in restaurant.times:
        return None
    match page:
        case "restaurant" | "times":
            return Visited(page, restaurant.id, plan)
        case "calendar":
            month = date.fromisoformat(f"{query['month']}-01") if "month" in query else plan.day.replace(day=1)
            inside = FIRST_DAY.replace(day=1) <= month <= LAST_DAY
            return Visited("calendar", restaurant.id, plan, month) if inside else None
    at, seating, several = time.fromisoformat(query.get("at", "")), query.get("seating"), len(restaurant.seatings) > 1
    if not tables.is_free(restaurant, plan.day, plan.party, at):
        return None
    table = RestaurantTable(restaurant_id=restaurant.id, day=plan.day, party=plan.party, time=at, seating=seating)
    if page == "seating" and several and seating is None:
        return Chosen("seating", table, plan)
    if page == "details" and (seating in restaurant.seatings if several else seating is None):
        return Chosen("details", table, plan)
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """What a guest has sent."""

    name: str = ""
    phone: str = ""
    email: str = ""

    @property
    def wanting(self) -> tuple[str, ...]:
        """The fields that the site does not accept so."""
        wrong = {"Name": not self.name, "Phone": not self.phone, "Email": "@" not in self.email}
        return tuple(field for field, is_wrong in wrong.items() if is_wrong)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    table: RestaurantTable
    details: Details


@dataclass(frozen=True, kw_only=True, slots=True)
class BookingVisit:
    """The site's record of one episode: replaced after each request, so that an earlier one can be put back."""

    city: str  # where it began
    held: RestaurantTable | None = None  # whose details form was shown last
    draft: Details | None = None  # sent and not accepted
    reservation: Reservation | None = None
