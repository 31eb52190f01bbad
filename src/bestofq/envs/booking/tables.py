"""When a table is free: fixed by the seed, the same for every visit. Nobody but the visitor books."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta

from bestofq.envs.booking.restaurants import BookingConfig, Restaurant, minutes

PER_GUEST = 0.02  # a larger party finds fewer free times: this share more is taken for each guest beyond two


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    day: date
    party: int
    time: time


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """What is reserved, or about to be. `seating` is None where the restaurant has only one kind."""

    restaurant_id: str
    day: date
    party: int
    time: time
    seating: str | None = None


class Tables:
    def __init__(self, config: BookingConfig) -> None:
        self._config = config

    @property
    def first_day(self) -> date:
        return self._config.today

    @property
    def last_day(self) -> date:
        return self._config.today + timedelta(days=self._config.window)

    def is_free(self, restaurant: Restaurant, day: date, party: int, at: time) -> bool:
        taken = self._config.taken + PER_GUEST * max(0, party - 2)
        key = f"table-{self._config.seed}-{restaurant.id}-{day}-{at:%H%M}"
        point = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64  # uniform in [0, 1)
        return at in restaurant.times and self.first_day <= day <= self.last_day and point >= taken

    def free(self, restaurant: Restaurant, plan: Plan) -> Sequence[time]:
        """The free times of the day that the site shows: those near the wanted one, in order."""
        return [
            at
            for at in restaurant.times
            if abs(minutes(at) - minutes(plan.time)) <= self._config.near
            and self.is_free(restaurant, plan.day, plan.party, at)
        ]

    def nearest(self, restaurant: Restaurant, plan: Plan) -> Sequence[time]:
        """The right times for a plan: the wanted one where it is free; else the free one nearest to it by minutes; two
        that are equally near, one earlier and one later, are both right (the earlier stands first). Empty: none is."""
        free = self.free(restaurant, plan)
        least = min((abs(minutes(at) - minutes(plan.time)) for at in free), default=0)
        return [at for at in free if abs(minutes(at) - minutes(plan.time)) == least]
