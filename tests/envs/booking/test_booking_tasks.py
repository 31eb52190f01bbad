"""What tasks ask for, what earns the reward, and what the site and the user answer."""

from collections import Counter
from dataclasses import replace
from datetime import date, time

import pytest

from bestofq.core.actions import AskUser, Clear, Click, GoBack, Scroll, Submit, Write
from bestofq.core.observation import Observation, Task
from bestofq_sites.booking.goals import BookingGoal, reply
from bestofq_sites.booking.pages import COMPLETE, BookingVisit, Chosen, Details, Reservation, from_url, to_url
from bestofq_sites.booking.restaurants import FIRST_DAY, NEAR, RESTAURANTS, Plan, Restaurant, RestaurantTable, minutes
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from experiments.oracles.booking import BookingOracle


@pytest.fixture(scope="module")
def suite() -> Booking:
    return Booking()


@pytest.fixture(scope="module")
def goals(suite: Booking) -> list[BookingGoal]:
    return [suite.goals[task.id] for task in suite.tasks("train")]


def right(suite: Booking, task: Task) -> BookingVisit:
    """The visit that has made the reservation the task asks for."""
    goal = suite.goals[task.id]
    at = suite.tables.nearest(suite.restaurants[goal.restaurant_id], goal.plan)[0]
    table = RestaurantTable(
        restaurant_id=goal.restaurant_id, day=goal.day, party=goal.party, time=at, seating=goal.seating
    )
    details = Details(name=goal.name, phone=goal.phone, email=goal.email)
    return replace(suite.visit(task), reservation=Reservation(table=table, details=details))


def test_splits_share_no_restaurant_and_hold_enough_tasks(suite: Booking) -> None:
    places = {split: {*suite.server(split).directory} for split in ("train", "dev", "test")}
    assert len(set.union(*places.values())) == sum(map(len, places.values())) == RESTAURANTS
    assert len(suite.tasks("train")) >= 600
    assert len(suite.tasks("test")) >= 200
    assert {suite.goals[task.id].restaurant_id for task in suite.tasks("test")} == places["test"]


def test_the_same_seed_makes_the_same_tasks(suite: Booking) -> None:
    assert Booking().tasks("dev") == suite.tasks("dev")
    assert Booking(seed=1).tasks("dev") != suite.tasks("dev")


def test_the_nearest_free_time_is_right_and_of_two_equally_near_both_are(suite: Booking) -> None:
    restaurant = next(r for r in suite.restaurants.values() if r.opens == time(12))
    seen = Counter[int]()
    for day in range(14, 31):
        for at in restaurant.times:
            plan = Plan(day=date(2024, 5, day), party=4, time=at)
            found = suite.tables.nearest(restaurant, plan)
            free = [t for t in restaurant.times if suite.tables.is_free(restaurant, plan.day, plan.party, t)]
            away = {t: abs(minutes(t) - minutes(at)) for t in free}
            near = [t for t in free if away[t] == min(away.values()) <= NEAR]
            assert list(found) == near
            seen[len(found)] += 1
    assert seen[1] > 0
    assert seen[2] > 0


@pytest.mark.parametrize(
    ("field", "value", "criterion"),
    [
        ("restaurant_id", "elsewhere", "date and time"),
        ("day", date(2024, 5, 13), "date and time"),
        ("time", time(3), "date and time"),
        ("party", 99, "party size"),
        ("seating", "Roof", "user information"),
        ("name", "Nobody", "user information"),
        ("phone", "555-9999", "user information"),
        ("email", "a@b.c", "user information"),
    ],
)
def test_each_criterion_is_needed(suite: Booking, field: str, value: object, criterion: str) -> None:
    task = next(t for t in suite.tasks("train") if suite.goals[t.id].seating)
    visit = right(suite, task)
    assert suite.reward(task, visit) == 1
    made = visit.reservation
    if field in ("name", "phone", "email"):
        made = replace(made, details=replace(made.details, **{field: value}))
    else:
        made = replace(made, table=replace(made.table, **{field: value}))
    wrong = replace(visit, reservation=made)
    assert [name for name, holds in suite.criteria(task, made).items() if not holds] == [criterion]
    assert suite.reward(task, wrong) == 0


def test_the_user_answers_what_only_the_user_knows(goals: list[BookingGoal]) -> None:
    goal = next(g for g in goals if g.seating and not g.stated)
    assert reply(goal, "Would you like to sit indoors or at the bar?") == f"{goal.seating}, please."
    assert goal.phone in reply(goal, "What is your phone number?")
    assert "nearest free" in reply(goal, "Is another time fine?")
    assert reply(goal, "For how many people?") == f"For {goal.party} {'person' if goal.party == 1 else 'people'}."
    assert reply(goal, "Shall I go on?") == "I have told you all I know."


async def test_a_form_that_is_not_filled_in_is_asked_for_again_and_keeps_what_was_sent(suite: Booking) -> None:
    env, task = TextEnv(suite), suite.tasks("dev")[0]
    seen = await at_details(env, suite, task)
    mark = {e.name: e.mark for e in seen.elements}
    await env.step(Write(mark=mark["Name"], text="Ann Lee"))
    result = await env.step(Write(mark=mark["Email"], text="nonsense", enter=True))
    assert "Please correct: Phone, Email" in result.observation.text
    assert 'Name: "Ann Lee"' in result.observation.text
    assert not result.terminated


async def at_details(env: TextEnv, suite: Booking, task: Task) -> Observation:
    seen, oracle = await env.reset(task, seed=0), BookingOracle(suite, task.id)
    while not any(e.name == COMPLETE for e in seen.elements):
        seen = (await env.step(oracle.advise(env, seen).action)).observation
    return seen


async def test_only_sending_the_details_is_irreversible(suite: Booking) -> None:
    env, task = TextEnv(suite), suite.tasks("dev")[0]
    seen, oracle = await env.reset(task, seed=0), BookingOracle(suite, task.id)
    for _ in range(40):
        action = oracle.advise(env, seen).action
        result = await env.step(action)
        assert suite.irreversible(seen, action) == result.terminated
        seen = result.observation
        if result.terminated:
            break
    assert result.terminated
    seen = await at_details(env, suite, task)
    mark = {e.name: e.mark for e in seen.elements}
    for action in (Submit(mark=mark["Phone"]), Write(mark=mark["Phone"], text="1", enter=True)):
        assert suite.irreversible(seen, action)
    for action in (Write(mark=mark["Phone"], text="1"), Clear(mark=mark["Phone"]), Click(mark=mark["Home"])):
        assert not suite.irreversible(seen, action)
    assert not any(suite.irreversible(seen, a) for a in (GoBack(), Scroll(), AskUser(question="Shall I?")))


def test_every_view_has_one_address(suite: Booking) -> None:
    server = suite.server("test")
    for restaurant in server.directory.values():
        several = len(restaurant.seatings) > 1
        seating = restaurant.seatings[-1] if several else None
        plan = Plan(day=date(2024, 6, 3), party=3, time=time(19, 30))
        for at in server.tables.free(restaurant, plan):
            table = RestaurantTable(restaurant_id=restaurant.id, day=plan.day, party=3, time=at, seating=seating)
            view = Chosen(page="details", table=table, plan=plan)
            assert from_url(to_url(view), server.directory, server.tables) == view
    for url in ("/details/nobody", "/restaurant/x/y", "/search?city=Atlantis&q=x", "/calendar/zorbas?month=2031-01"):
        assert from_url(url, server.directory, server.tables) is None


def test_a_taken_table_cannot_be_had_by_its_address(suite: Booking) -> None:
    server = suite.server("test")
    restaurant: Restaurant = next(iter(server.directory.values()))
    for free in (True, False):
        tables = (at for at in restaurant.times if server.tables.is_free(restaurant, FIRST_DAY, 2, at) == free)
        url = f"/details/{restaurant.id}?date={FIRST_DAY}&party=2&time=1900&at={next(tables):%H%M}"
        if len(restaurant.seatings) > 1:
            url += f"&seating={restaurant.seatings[0]}"
        assert (from_url(url, server.directory, server.tables) is not None) == free
