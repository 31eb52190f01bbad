"""The goals of tasks (Agent Q, 6.1), combined from a seed, and what their user replies to an agent."""

import random
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, time, timedelta

from pydantic import Field

from bestofq_sites.booking.restaurants import FIRST_DAY, LARGEST_PARTY, LAST_DAY, WORDS, Plan, Restaurant, Tables
from bestofq_sites.booking.writing import clock, people, short_day
from bestofq_sites.local_site import rules

TASKS = 8  # of a restaurant
OTHER_CITY = 0.4  # share of tasks that start in the wrong city
UNAVAILABLE = 0.25  # share of tasks whose wanted time is taken
STATED = 0.5  # share of seating preferences that the instruction states


class BookingGoal(rules.Goal):
    restaurant_id: str
    start_city: str = Field(description="where the visit begins; often not the restaurant's")
    day: date
    party: int
    time: time
    name: str
    phone: str
    email: str
    seating: str | None = Field(description="what the guest prefers; None where there is nothing to choose")
    stated: bool = Field(description="whether the instruction states `seating`, or only the user can")

    @property
    def plan(self) -> Plan:
        return Plan(day=self.day, party=self.party, time=self.time)


def make_goals(restaurant: Restaurant, tables: Tables, seed: int) -> Iterator[BookingGoal]:
    """`TASKS` goals; each can be reached: some time near the wanted one is free."""
    for number in range(TASKS):
        goal_id = f"{restaurant.id}-{number}"
        rng = random.Random(f"goal-{seed}-{goal_id}")
        plan = _plan(restaurant, tables, rng)
        others = [city for city in WORDS["cities"] if city != restaurant.city]
        given, surname = rng.choice(WORDS["given"]), rng.choice(WORDS["surnames"])
        name, email = f"{given} {surname}", f"{given.lower()}.{surname.lower()}@{rng.choice(WORDS['mail'])}"
        phone = f"555-01{rng.randint(0, 99):02d}"  # of the numbers that are kept for fiction
        seating = rng.choice(restaurant.seatings) if len(restaurant.seatings) > 1 else None
        stated = seating is not None and rng.random() < STATED
        instruction = rng.choice(WORDS["phrasings"]).format(
            restaurant=restaurant.name,
            city=restaurant.city,
            people=people(plan.party),
            day=f"{short_day(plan.day)} {plan.day.year}",
            time=clock(plan.time),
            guest=f"{name}, {phone}, {email}",
        )
        if seating is not None and stated:
            instruction += rng.choice(WORDS["preferences"]).format(seating=seating)
        yield BookingGoal(
            id=goal_id,
            restaurant_id=restaurant.id,
            instruction=instruction,
            start_city=rng.choice(others) if rng.random() < OTHER_CITY else restaurant.city,
            **asdict(plan),
            name=name,
            phone=phone,
            email=email,
            seating=seating,
            stated=stated,
        )


def _plan(restaurant: Restaurant, tables: Tables, rng: random.Random) -> Plan:
    unavailable = rng.random() < UNAVAILABLE
    fallback = None
    for _ in range(1000):
        plan = Plan(
            day=FIRST_DAY + timedelta(days=rng.randint(1, (LAST_DAY - FIRST_DAY).days)),
            party=rng.randint(1, LARGEST_PARTY),
            time=rng.choice(restaurant.times),
        )
        right = tables.nearest(restaurant, plan)
        if right and (right[0] != plan.time) == unavailable:
            return plan
        fallback = plan if right else fallback
    assert fallback is not None
    return fallback


def reply(goal: BookingGoal, question: str) -> str:
    """What the scripted user answers to an agent's question; the first kind of question that fits is answered."""
    answers = {
        r"seat|sit\b|indoor|outdoor|inside|outside|terrace|booth|\bbar\b|prefer": (
            f"{goal.seating}, please." if goal.seating else "Any seating is fine."
        ),
        r"how many|people|party|guests": f"For {people(goal.party)}.",
        r"name|phone|number|mail|detail|contact": f"{goal.name}, {goal.phone}, {goal.email}.",
        r"time|when|date|day|earlier|later|taken|free|available": (
            f"{short_day(goal.day)} at {clock(goal.time)}, or the nearest free time."
        ),
    }
    fitting = (answer for words, answer in answers.items() if re.search(words, question, re.IGNORECASE))
    return next(fitting, "I have told you all I know.")
