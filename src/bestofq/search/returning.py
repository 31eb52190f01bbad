"""Getting back to a page of the tree (Agent Q, 5.1.2), in the cheapest way the environment allows."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import get_args

from bestofq.core.actions import Action
from bestofq.core.errors import BestOfQError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Env, Restores
from bestofq.core.tree import Way, WayBack

WAYS: tuple[Way, ...] = get_args(Way)
ALIKE = 0.9  # share of elements that two looks at one page have in common, at least


class DivergedError(BestOfQError):
    """A page was not found again where its actions led before."""


@dataclass
class Costs:
    """Ways back so far: how many, and the seconds they took."""

    count: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    seconds: dict[Way, float] = field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))
    diverged: int = 0

    def add(self, way: Way, count: int, seconds: float) -> None:
        self.count[way] += count
        self.seconds[way] += seconds

    def frozen(self) -> tuple[WayBack, ...]:
        """As a tree keeps them."""
        return tuple(WayBack(way=way, count=self.count[way], seconds=round(self.seconds[way], 4)) for way in WAYS)


def same_page(before: Observation, now: Observation) -> bool:
    """Whether two observations are of one page: the same address, and nearly the same elements (a clock, an
    advertisement may differ)."""
    if before.url != now.url:
        return False
    a, b = ({(e.role, e.name, e.value, e.states) for e in o.elements} for o in (before, now))
    return len(a & b) >= ALIKE * len(a | b)


@dataclass
class Place:
    """An environment, and the node it stands at (None: unknown)."""

    env: Env
    at: int | None = None


class Places:
    """The environments of one tree: as many as rollouts run at once, made when first needed.

    Where an environment `Restores`, what it saved is good in each of them. Elsewhere the actions from the start are
    carried out again, and what is seen at the end is compared.
    """

    def __init__(self, make_env: Callable[[], Awaitable[Env]], task: Task, *, limit: int) -> None:
        self._make_env = make_env
        self._task = task
        self._free: list[Place] = []
        self._all: list[Place] = []
        self._room = asyncio.Semaphore(limit)
        self._saved: dict[int, object] = {}
        self.costs = Costs()

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator["Place"]:
        async with self._room:
            if not self._free:
                place = Place(await self._make_env())
                self._all.append(place)
                self._free.append(place)
            place = self._free.pop()
            try:
                yield place
            except BaseException:
                place.at = None
                raise
            finally:
                self._free.append(place)

    async def save(self, place: Place, node: int) -> None:
        """Note that the place stands at `node` now, and how to come back where the environment can."""
        place.at = node
        if isinstance(place.env, Restores):
            self._saved[node] = await place.env.save()

    async def reach(self, place: Place, node: int, actions: Sequence[Action], seen: Observation | None) -> Observation:
        """Put the place at `node`, to which `actions` lead from the start; `seen` is what it showed before.

        DivergedError where it now shows another page. The environment's own errors otherwise.
        """
        started = time.perf_counter()
        way: Way = "stayed"
        if place.at == node and seen is not None:
            observation = seen
        elif isinstance(place.env, Restores) and node in self._saved:
            way = "restored"
            observation = await place.env.restore(self._saved[node])
        else:
            way = "replayed"
            observation = await self._replay(place.env, actions)
            await self.save(place, node)
        self.costs.add(way, 1, time.perf_counter() - started)
        if seen is not None and not same_page(seen, observation):
            self.costs.diverged += 1
            place.at = None
            raise DivergedError(f"{len(actions)} actions led to {observation.url} instead of {seen.url}")
        place.at = node
        return observation

    async def _replay(self, env: Env, actions: Sequence[Action]) -> Observation:
        observation = await env.reset(self._task, seed=self._task.seed)
        for number, action in enumerate(actions, 1):
            result = await env.step(action)
            observation = result.observation
            if (result.terminated or result.truncated) and number < len(actions):
                raise DivergedError(f"the episode ended after {number} of {len(actions)} actions that did not end it")
        return observation

    async def start(self, actions: Sequence[Action]) -> Observation:
        """What is seen at the root, to which `actions` lead from the start of the episode."""
        async with self.borrow() as place:
            return await self.reach(place, 0, actions, None)

    async def close(self) -> None:
        for place in self._all:
            await place.env.close()
        self._all, self._free = [], []
        self._saved.clear()
