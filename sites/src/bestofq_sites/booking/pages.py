"""Where a visitor can be, as values and as addresses; what the site knows of a visit; and what it answers.

Its pages are the same in the browser and as text. They are short, since small language models read them.
"""

import calendar
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
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
from bestofq_sites.booking.writing import MONTHS, clock, long_day, people, short_day
from bestofq_sites.local_site import rules
from bestofq_sites.local_site.page import Button, Field, Form, Line, Link, Page, SelectField

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
    draft: Details | None = None  # sent and not accepted
    reservation: Reservation | None = None


TITLE = "TableTime"
COMPLETE = "Complete reservation"
DETAILS = ("Name", "Phone", "Email")
POPULAR = 3  # restaurants named on the start page

NOT_FOUND = Page(TITLE, ((TITLE,), ("There is no such page on this site.",), (Link("Home", "/"),)), missing=True)


class BookingServer(rules.SiteServer[BookingVisit, View | None]):
    """Answers requests of visits to one part of the restaurants; keeps nothing itself."""

    def __init__(self, directory: Directory, tables: Tables) -> None:
        self.directory = directory
        self.tables = tables

    def view(self, visit: BookingVisit, url: str) -> View | None:
        """What stands at an address; after the reservation nothing but its confirmation."""
        return from_url(url, self.directory, self.tables) if visit.reservation is None else Done()

    def get(self, visit: BookingVisit, url: str) -> tuple[BookingVisit, Page]:
        view = self.view(visit, url)
        return visit, NOT_FOUND if view is None else self._page(view, visit)

    def post(self, visit: BookingVisit, url: str, sent: Mapping[str, str]) -> tuple[BookingVisit, str]:
        """Take a details form, sent from its page: reserve the table, or ask again. The visit, and where to go on."""
        view = self.view(visit, url)
        if not isinstance(view, Chosen) or view.page != "details":
            return visit, url
        details = Details(**{key: " ".join(sent.get(key, "").split()) for key in ("name", "phone", "email")})
        if details.wanting:
            return replace(visit, draft=details), url
        return replace(visit, reservation=Reservation(table=view.table, details=details)), to_url(Done())

    def _page(self, view: View, visit: BookingVisit) -> Page:
        match view:
            case Home():
                return self._home(view.city or visit.city)
            case Cities():
                return _page("cities", ("Choose your city",), *((_link(city, Home(city)),) for city in WORDS["cities"]))
            case BookingResults():
                return self._results(view)
            case Visited(page="restaurant"):
                return self._restaurant(view)
            case Visited(page="calendar"):
                return self._calendar(view)
            case Visited():
                return self._times(view)
            case Chosen(page="seating"):
                return self._seating_page(view)
            case Chosen():
                return self._details(view, visit.draft)
            case Done():
                return NOT_FOUND if visit.reservation is None else self._done(visit.reservation)

    def _home(self, city: str) -> Page:
        popular = self.directory.search(city, "")[:POPULAR]
        return Page(
            TITLE,
            (
                (TITLE,),
                (f"City: {city}", _link("Change city", Cities())),
                _search(city, ""),
                (f"Popular in {city}:",),
                *map(self._entry, popular),
            ),
        )

    def _results(self, view: BookingResults) -> Page:
        found = self.directory.search(view.city, view.query)
        what = f' for "{view.query}"' if view.query else ""
        return _page(
            "results",
            (f"Restaurants in {view.city}{what}",),
            (_home_link(view.city), _link("Change city", Cities())),
            _search(view.city, view.query),
            *(map(self._entry, found) if found else [(f"Nothing found in {view.city}.",)]),
        )

    def _entry(self, restaurant: Restaurant) -> Line:
        to = Visited("restaurant", restaurant.id, USUAL_PLAN)
        return _link(restaurant.name, to), _kind(restaurant)

    def _restaurant(self, view: Visited) -> Page:
        restaurant, plan = self.directory[view.restaurant_id], view.plan
        parties = tuple((f"{n}", people(n)) for n in range(1, LARGEST_PARTY + 1))
        times = tuple((f"{at:%H%M}", clock(at)) for at in restaurant.times)
        month = replace(view, page="calendar", month=plan.day.replace(day=1))
        return _page(
            restaurant.name,
            (restaurant.name,),
            (_home_link(restaurant.city),),
            (f"{_kind(restaurant)}, {restaurant.city}",),
            (f"Open from {clock(restaurant.opens)}, last table at {clock(restaurant.closes)}",),
            (f"Date: {long_day(plan.day)}", _link("Change date", month)),
            Form(
                f"/times/{restaurant.id}",
                again=f"/restaurant/{restaurant.id}",
                hidden=(plan_query(plan)[0],),
                lines=(
                    (SelectField("party", "Party size", f"{plan.party}", parties),),
                    (SelectField("time", "Time", f"{plan.time:%H%M}", times),),
                    (Button("Find a table"),),
                ),
            ),
        )

    def _calendar(self, view: Visited) -> Page:
        restaurant = self.directory[view.restaurant_id]
        month = view.month or view.plan.day.replace(day=1)
        back = Visited("restaurant", restaurant.id, view.plan)
        lines = [
            tuple(
                _link(short_day(day), replace(back, plan=replace(view.plan, day=day)))
                for day in week
                if day.month == month.month and FIRST_DAY <= day <= LAST_DAY
            )
            for week in calendar.Calendar().monthdatescalendar(month.year, month.month)
        ]
        before, after = month - timedelta(days=1), (month + timedelta(days=31)).replace(day=1)
        turns = []
        if before >= FIRST_DAY:
            turns.append(_link("Previous month", replace(view, month=before.replace(day=1))))
        if after <= LAST_DAY:
            turns.append(_link("Next month", replace(view, month=after)))
        return _page(
            "date",
            (f"Date at {restaurant.name}",),
            (_home_link(restaurant.city), _link("Back", back)),
            (f"{MONTHS[month.month - 1]} {month.year}", *turns),
            *(line for line in lines if line),
        )

    def _times(self, view: Visited) -> Page:
        restaurant, plan = self.directory[view.restaurant_id], view.plan
        free = self.tables.free(restaurant, plan)
        wanted = clock(plan.time)
        if not free:
            said = f"No table is free near {wanted}."
        else:
            said = f"Free times near {wanted}:" if plan.time in free else f"{wanted} is taken. Free times near it:"
        page: Literal["seating", "details"] = "seating" if len(restaurant.seatings) > 1 else "details"
        tables = (RestaurantTable(restaurant_id=restaurant.id, day=plan.day, party=plan.party, time=at) for at in free)
        return _page(
            "times",
            (f"Tables at {restaurant.name}",),
            _ways_back(restaurant, plan),
            (f"{long_day(plan.day)}, {people(plan.party)}",),
            (said,),
            *((_link(clock(table.time), Chosen(page, table, plan)),) for table in tables),
        )

    def _seating_page(self, view: Chosen) -> Page:
        restaurant = self.directory[view.table.restaurant_id]
        return _page(
            "seating",
            (f"Seating at {restaurant.name}",),
            _ways_back(restaurant, view.plan),
            _summary(view.table),
            ("Where would you like to sit?",),
            *((_link(s, Chosen("details", replace(view.table, seating=s), view.plan)),) for s in restaurant.seatings),
        )

    def _details(self, view: Chosen, draft: Details | None) -> Page:
        restaurant = self.directory[view.table.restaurant_id]
        said = [] if draft is None else [(f"Please correct: {', '.join(draft.wanting)}",)]
        sent = draft or Details()
        return _page(
            "details",
            ("Your details",),
            _ways_back(restaurant, view.plan),
            (f"{restaurant.name}, {restaurant.city}",),
            _summary(view.table),
            *said,
            Form(
                to_url(view),
                post=True,
                lines=(
                    (Field("name", "Name", sent.name),),
                    (Field("phone", "Phone", sent.phone, kind="tel"),),
                    (Field("email", "Email", sent.email, kind="email"),),
                    (Button(COMPLETE),),
                ),
            ),
        )

    def _done(self, made: Reservation) -> Page:
        restaurant, details = self.directory[made.table.restaurant_id], made.details
        return _page(
            "confirmed",
            ("Your reservation is confirmed.",),
            (f"{restaurant.name}, {restaurant.city}",),
            _summary(made.table),
            (f"{details.name}, {details.phone}, {details.email}",),
        )


def _page(name: str, *parts: Line | Form) -> Page:
    return Page(f"{TITLE}: {name}", parts)


def _link(name: str, view: View) -> Link:
    return Link(name, to_url(view))


def _search(city: str, query: str) -> Form:
    line = Field("q", "Restaurant", query, kind="search"), Button("Search")
    return Form("/search", (line,), hidden=(("city", city),))


def _kind(restaurant: Restaurant) -> str:
    return f"{restaurant.cuisine}, {'$' * restaurant.price}, {restaurant.area}"


def _home_link(city: str) -> Link:
    return _link("Home", Home(city))


def _ways_back(restaurant: Restaurant, plan: Plan) -> Line:
    return _home_link(restaurant.city), _link("Change search", Visited("restaurant", restaurant.id, plan))


def _summary(table: RestaurantTable) -> Line:
    seating = "" if table.seating is None else f", {table.seating} seating"
    return (f"{long_day(table.day)} at {clock(table.time)}, {people(table.party)}{seating}",)
