"""The restaurants, made from a seed: what can be found among them, and when a table is free."""

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from functools import cached_property
from importlib.resources import files

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq.envs.splits import uniform

WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
SEATINGS = ("Indoor", "Outdoor", "Bar", "Booth")
RESTAURANTS = 192  # of all splits
RESULTS = 8  # shown of a search
FIRST_DAY, LAST_DAY = date(2024, 5, 13), date(2024, 6, 30)  # that can be booked; the site's clock stands still
OPENINGS = ((time(12), time(21, 30)), (time(17), time(22)), (time(17), time(22)))
SLOT = 30  # minutes between two times that can be booked
LARGEST_PARTY = 8
NEAR = 90  # minutes around the wanted time that are shown
TAKEN = 0.3  # share of the times that are taken for two people
PER_GUEST = 0.02  # a larger party finds fewer free times: this share more is taken for each guest beyond two


class Restaurant(FrozenModel):
    id: str
    name: str
    city: str
    area: str
    cuisine: str
    price: int = Field(ge=1, le=4, description="dollar signs")
    opens: time
    closes: time = Field(description="the last time that can be booked")
    seatings: tuple[str, ...] = Field(min_length=1, description="of SEATINGS; a guest chooses where there are several")

    @cached_property
    def times(self) -> tuple[time, ...]:
        """The times of a day that can be booked when they are free."""
        first, last = minutes(self.opens), minutes(self.closes)
        return tuple(time(*divmod(m, 60)) for m in range(first, last + 1, SLOT))


def minutes(at: time) -> int:
    """Since midnight."""
    return at.hour * 60 + at.minute


def make_restaurants(seed: int) -> Iterator[Restaurant]:
    """In a shuffled order, every city with about as many, no name twice."""
    rng = random.Random(f"restaurants-{seed}")
    names = [f"{first} {last}" for first in WORDS["first"] for last in WORDS["last"] if first != last]
    names = rng.sample(names, RESTAURANTS)
    for i, family in enumerate(WORDS["families"]):
        names[i] = f"{family}'s"
    rng.shuffle(names)
    cities = tuple(WORDS["cities"])
    for i, name in enumerate(names):
        city = cities[i % len(cities)]
        opens, closes = rng.choice(OPENINGS)
        some = rng.sample(SEATINGS, rng.choice((1, 2, 2, 3)))
        yield Restaurant(
            id=name.lower().replace("'", "").replace(" ", "-"),
            name=name,
            city=city,
            area=rng.choice(WORDS["cities"][city]),
            cuisine=rng.choice(WORDS["cuisines"]),
            price=rng.randint(1, 4),
            opens=opens,
            closes=closes,
            seatings=tuple(seating for seating in SEATINGS if seating in some),
        )


class Directory(dict[str, Restaurant]):
    """Restaurants by id, by city, by words of their name or cuisine."""

    def search(self, city: str, query: str) -> Sequence[Restaurant]:
        """The best RESULTS of a city: by how many words of the query they have, then by name; all for no query."""
        wanted = set(query.casefold().split())
        words = {r.id: f"{r.name} {r.cuisine} {r.area}".casefold().split() for r in self.values() if r.city == city}
        shared = {self[one]: len(wanted.intersection(its)) for one, its in words.items()}
        found = [r for r, count in shared.items() if count or not wanted]
        return sorted(found, key=lambda r: (-shared[r], r.name))[:RESULTS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    day: date
    party: int
    time: time


@dataclass(frozen=True, kw_only=True, slots=True)
class RestaurantTable(Plan):
    """What is reserved, or about to be. `seating` is None where the restaurant has only one kind."""

    restaurant_id: str
    seating: str | None = None


class Tables:
    """When a table is free: fixed by the seed, the same for every visit. Nobody but the visitor books."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def is_free(self, restaurant: Restaurant, day: date, party: int, at: time) -> bool:
        taken = TAKEN + PER_GUEST * max(0, party - 2)
        key = f"table-{self._seed}-{restaurant.id}-{day}-{at:%H%M}"
        return at in restaurant.times and FIRST_DAY <= day <= LAST_DAY and uniform(key) >= taken

    def free(self, restaurant: Restaurant, plan: Plan) -> Sequence[time]:
        """The free times of the day that the site shows: those near the wanted one, in order."""
        return [
            at
            for at in restaurant.times
            if abs(minutes(at) - minutes(plan.time)) <= NEAR and self.is_free(restaurant, plan.day, plan.party, at)
        ]

    def nearest(self, restaurant: Restaurant, plan: Plan) -> Sequence[time]:
        """The wanted time where it is free, else the free ones nearest to it, two at the same distance; empty: none."""
        free = self.free(restaurant, plan)
        least = min((abs(minutes(at) - minutes(plan.time)) for at in free), default=0)
        return [at for at in free if abs(minutes(at) - minutes(plan.time)) == least]
