"""The page of every view: short, since small language models read them."""

import calendar
from dataclasses import replace
from datetime import date, timedelta

from bestofq.envs.booking.restaurants import LARGEST_PARTY, Directory, Restaurant, words
from bestofq.envs.booking.tables import Plan, Table, Tables
from bestofq.envs.booking.views import (
    Chosen,
    Cities,
    Done,
    Home,
    Results,
    View,
    Visited,
    plan_query,
    to_url,
    usual_plan,
)
from bestofq.envs.booking.visits import Visit
from bestofq.envs.booking.writing import clock, long_day, month_of, people, short_day
from bestofq.envs.local_site.page import Button, Choice, Field, Form, Line, Link, Page

TITLE = "TableTime"
COMPLETE = "Complete reservation"
DETAILS = ("Name", "Phone", "Email")
POPULAR = 3  # restaurants named on the start page

NOT_FOUND = Page(
    title=TITLE,
    parts=((TITLE,), ("There is no such page on this site.",), (Link(name="Home", to="/"),)),
    missing=True,
)


class Pages:
    """Writes the pages over one part of the restaurants."""

    def __init__(self, directory: Directory, tables: Tables) -> None:
        self._directory = directory
        self._tables = tables

    def page(self, view: View, visit: Visit) -> Page:
        match view:
            case Home():
                return self._home(view.city or visit.city)
            case Cities():
                parts = ((Link(name=city, to=to_url(Home(city=city))),) for city in words().cities)
                return Page(title=f"{TITLE}: cities", parts=(("Choose your city",), *parts))
            case Results():
                return self._results(view)
            case Visited(page="restaurant"):
                return self._restaurant(view)
            case Visited(page="calendar"):
                return self._calendar(view)
            case Visited():
                return self._times(view)
            case Chosen(page="seating"):
                return self._seating(view)
            case Chosen():
                return self._details(view, visit)
            case Done():
                return NOT_FOUND if visit.reservation is None else self._done(visit.reservation.table, visit)

    def _home(self, city: str) -> Page:
        popular = self._directory.search(city, "")[:POPULAR]
        return Page(
            title=TITLE,
            parts=(
                (TITLE,),
                (f"City: {city}", Link(name="Change city", to=to_url(Cities()))),
                _search(city, ""),
                (f"Popular in {city}:",),
                *(self._entry(restaurant) for restaurant in popular),
            ),
        )

    def _results(self, view: Results) -> Page:
        found = self._directory.search(view.city, view.query)
        what = f' for "{view.query}"' if view.query else ""
        return Page(
            title=f"{TITLE}: results",
            parts=(
                (f"Restaurants in {view.city}{what}",),
                (_home_link(view.city), Link(name="Change city", to=to_url(Cities()))),
                _search(view.city, view.query),
                *(self._entry(restaurant) for restaurant in found),
                *(() if found else ((f"Nothing found in {view.city}.",),)),
            ),
        )

    def _entry(self, restaurant: Restaurant) -> Line:
        to = Visited(page="restaurant", restaurant_id=restaurant.id, plan=usual_plan(self._tables))
        return Link(name=restaurant.name, to=to_url(to)), _kind(restaurant)

    def _restaurant(self, view: Visited) -> Page:
        restaurant, plan = self._directory[view.restaurant_id], view.plan
        month = plan.day.replace(day=1)
        parties = tuple((f"{n}", people(n)) for n in range(1, LARGEST_PARTY + 1))
        times = tuple((f"{at:%H%M}", clock(at)) for at in restaurant.times)
        return Page(
            title=f"{TITLE}: {restaurant.name}",
            parts=(
                (restaurant.name,),
                (_home_link(restaurant.city),),
                (f"{_kind(restaurant)}, {restaurant.city}",),
                (f"Open from {clock(restaurant.opens)}, last table at {clock(restaurant.closes)}",),
                (
                    f"Date: {long_day(plan.day)}",
                    Link(name="Change date", to=to_url(replace(view, page="calendar", month=month))),
                ),
                Form(
                    action=f"/times/{restaurant.id}",
                    again=f"/restaurant/{restaurant.id}",
                    hidden=(plan_query(plan)[0],),
                    lines=(
                        (Choice(key="party", name="Party size", value=f"{plan.party}", options=parties),),
                        (Choice(key="time", name="Time", value=f"{plan.time:%H%M}", options=times),),
                        (Button(name="Find a table"),),
                    ),
                ),
            ),
        )

    def _calendar(self, view: Visited) -> Page:
        restaurant = self._directory[view.restaurant_id]
        month = view.month or view.plan.day.replace(day=1)
        back = Visited(page="restaurant", restaurant_id=restaurant.id, plan=view.plan)
        lines = [
            tuple(
                Link(name=short_day(day), to=to_url(replace(back, plan=replace(view.plan, day=day))))
                for day in week
                if day.month == month.month and self._tables.first_day <= day <= self._tables.last_day
            )
            for week in calendar.Calendar().monthdatescalendar(month.year, month.month)
        ]
        before, after = month - timedelta(days=1), _next_month(month)
        turns = []
        if before >= self._tables.first_day:
            turns.append(Link(name="Previous month", to=to_url(replace(view, month=before.replace(day=1)))))
        if after <= self._tables.last_day:
            turns.append(Link(name="Next month", to=to_url(replace(view, month=after))))
        return Page(
            title=f"{TITLE}: date",
            parts=(
                (f"Date at {restaurant.name}",),
                (_home_link(restaurant.city), Link(name="Back", to=to_url(back))),
                (month_of(month), *turns),
                *(line for line in lines if line),
            ),
        )

    def _times(self, view: Visited) -> Page:
        restaurant, plan = self._directory[view.restaurant_id], view.plan
        free = self._tables.free(restaurant, plan)
        wanted = clock(plan.time)
        if not free:
            said = f"No table is free near {wanted}."
        else:
            said = f"Free times near {wanted}:" if plan.time in free else f"{wanted} is taken. Free times near it:"
        several = len(restaurant.seatings) > 1
        tables = (Table(restaurant_id=restaurant.id, day=plan.day, party=plan.party, time=at) for at in free)
        return Page(
            title=f"{TITLE}: times",
            parts=(
                (f"Tables at {restaurant.name}",),
                (_home_link(restaurant.city), _change("Change search", plan, restaurant)),
                (f"{long_day(plan.day)}, {people(plan.party)}",),
                (said,),
                *(
                    (
                        Link(
                            name=clock(table.time),
                            to=to_url(Chosen(page="seating" if several else "details", table=table, plan=plan)),
                        ),
                    )
                    for table in tables
                ),
            ),
        )

    def _seating(self, view: Chosen) -> Page:
        restaurant = self._directory[view.table.restaurant_id]
        return Page(
            title=f"{TITLE}: seating",
            parts=(
                (f"Seating at {restaurant.name}",),
                (_home_link(restaurant.city), _change("Change search", view.plan, restaurant)),
                _summary(view.table),
                ("Where would you like to sit?",),
                *(
                    (
                        Link(
                            name=seating,
                            to=to_url(replace(view, page="details", table=replace(view.table, seating=seating))),
                        ),
                    )
                    for seating in restaurant.seatings
                ),
            ),
        )

    def _details(self, view: Chosen, visit: Visit) -> Page:
        restaurant = self._directory[view.table.restaurant_id]
        draft = visit.draft
        said: tuple[Line, ...] = () if draft is None else ((f"Please correct: {', '.join(draft.wanting)}",),)
        return Page(
            title=f"{TITLE}: details",
            parts=(
                ("Your details",),
                (_home_link(restaurant.city), _change("Change search", view.plan, restaurant)),
                (f"{restaurant.name}, {restaurant.city}",),
                _summary(view.table),
                *said,
                Form(
                    action=to_url(view),
                    post=True,
                    lines=(
                        (Field(key="name", name="Name", value=draft.name if draft else ""),),
                        (Field(key="phone", name="Phone", value=draft.phone if draft else "", kind="tel"),),
                        (Field(key="email", name="Email", value=draft.email if draft else "", kind="email"),),
                        (Button(name=COMPLETE),),
                    ),
                ),
            ),
        )

    def _done(self, table: Table, visit: Visit) -> Page:
        assert visit.reservation is not None
        restaurant, details = self._directory[table.restaurant_id], visit.reservation.details
        return Page(
            title=f"{TITLE}: confirmed",
            parts=(
                ("Your reservation is confirmed.",),
                (f"{restaurant.name}, {restaurant.city}",),
                _summary(table),
                (f"{details.name}, {details.phone}, {details.email}",),
            ),
        )


def _search(city: str, query: str) -> Form:
    return Form(
        action="/search",
        hidden=(("city", city),),
        lines=((Field(key="q", name="Restaurant", value=query, kind="search"), Button(name="Search")),),
    )


def _kind(restaurant: Restaurant) -> str:
    return f"{restaurant.cuisine}, {'$' * restaurant.price}, {restaurant.area}"


def _home_link(city: str) -> Link:
    return Link(name="Home", to=to_url(Home(city=city)))


def _change(name: str, plan: Plan, restaurant: Restaurant) -> Link:
    return Link(name=name, to=to_url(Visited(page="restaurant", restaurant_id=restaurant.id, plan=plan)))


def _summary(table: Table) -> Line:
    seating = "" if table.seating is None else f", {table.seating} seating"
    return (f"{long_day(table.day)} at {clock(table.time)}, {people(table.party)}{seating}",)


def _next_month(month: date) -> date:
    return (month + timedelta(days=31)).replace(day=1)
