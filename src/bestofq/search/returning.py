"""Getting back to a page of the tree (Agent Q, 5.1.2), in the cheapest way the environment allows."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from bestofq.core.actions import Action, Targeted, action_text
from bestofq.core.decision import StepResult
from bestofq.core.errors import BestOfQError
from bestofq.core.irreversible import element_of
from bestofq.core.observation import Element, Observation, Point, Task
from bestofq.core.protocols import Env, Restores
from bestofq.core.tree import Way, WayBack
from bestofq.search.config import SearchConfig

WAYS: tuple[Way, ...] = get_args(Way)
ALIKE = 0.9  # share of elements that two looks at one page have in common, at least


Irreversible = Callable[[Observation, Action], bool]


class DivergedError(BestOfQError):
    """A page, or an element of it, was not found again where its actions led before."""


class Move(NamedTuple):
    """An action, and the page that it was chosen on (None: not known, and then it is not carried out again)."""

    page: Observation | None
    action: Action


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


def find_again(action: Action, before: Observation, now: Observation) -> Action:
    """`action`, chosen on the page `before`, for the same element of the page `now`, whatever its number there: the
    one of the same role and name, and of several such the one in the same position among them.

    DivergedError where the page has no such element, or another number of them.
    """
    if not isinstance(action, Targeted) or action.target is not None:
        return action
    element = element_of(action, before)
    if element is None:
        if element_of(action, now) is not None:
            raise DivergedError(f"nothing was there on {before.url}, and now something is")
        return action
    alike, found = _alike(element, before), _alike(element, now)
    if len(found) != len(alike):
        named = f"{element.role} {element.name!r}"
        raise DivergedError(f"{before.url} had {len(alike)} of {named}, and now has {len(found)}")
    again = found[alike.index(element)]
    if action.mark is not None:
        return action.model_copy(update={"mark": again.mark})
    assert action.point is not None
    if element.box is None or again.box is None:
        raise DivergedError(f"the place of {again.role} {again.name!r} on {now.url} is not known")
    x, y = again.box.x - element.box.x + action.point.x, again.box.y - element.box.y + action.point.y
    moved = action.model_copy(update={"point": Point(x, y)})
    if element_of(moved, now) != again:
        raise DivergedError(f"{again.role} {again.name!r} on {now.url} is under something else")
    return moved


def _alike(element: Element, page: Observation) -> list[Element]:
    return [other for other in page.elements if (other.role, other.name) == (element.role, element.name)]


@dataclass
class Place:
    """An environment, the node it stands at (None: unknown), and what it shows there."""

    env: Env
    at: int | None = None
    page: Observation | None = None


class Places:
    """The environments of one tree: as many as rollouts run at once, made when first needed.

    Where an environment `Restores`, what it saved is good in each of them. Elsewhere the actions from the start are
    carried out again. Each page on the way is compared with the one before, each element found again by what it is,
    and what is `irreversible` on the page as it is now is not carried out.
    """

    def __init__(
        self,
        make_env: Callable[[], Awaitable[Env]],
        task: Task,
        config: SearchConfig,
        irreversible: Irreversible = lambda observation, action: False,
    ) -> None:
        self._sandboxed = config.sandboxed
        self._irreversible = irreversible
        self._make_env = make_env
        self._task = task
        self._free: list[Place] = []
        self._all: list[Place] = []
        self._room = asyncio.Semaphore(config.parallel)
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

    async def reach(self, place: Place, node: int, moves: Sequence[Move], seen: Observation | None) -> Observation:
        """Put the place at `node`, to which `moves` lead from the start; `seen` is what it showed before.

        DivergedError where a page on the way, or this one, is another now. The environment's own errors otherwise.
        """
        started = time.perf_counter()
        way: Way = "stayed"
        try:
            if place.at == node and place.page is not None:
                observation = place.page
            elif isinstance(place.env, Restores) and node in self._saved:
                way = "restored"
                observation = place.page = await place.env.restore(self._saved[node])
            else:
                way = "replayed"
                observation = await self._replay(place, moves)
            self.costs.add(way, 1, time.perf_counter() - started)
            if seen is not None and not same_page(seen, observation):
                raise DivergedError(f"{len(moves)} actions led to {observation.url} instead of {seen.url}")
        except DivergedError:
            self.costs.diverged += 1
            raise
        if way == "replayed":
            await self.save(place, node)
        place.at = node
        return observation

    async def _replay(self, place: Place, moves: Sequence[Move]) -> Observation:
        observation = place.page = await place.env.reset(self._task, seed=self._task.seed)
        for number, move in enumerate(moves, 1):
            result = await self.step(place, move)
            observation = result.observation
            if (result.terminated or result.truncated) and number < len(moves):
                raise DivergedError(f"the episode ended after {number} of {len(moves)} actions that did not end it")
        return observation

    def unsafe(self, page: Observation, action: Action) -> bool:
        """Whether the action must not be carried out on the page: it seems irreversible, and this is no sandbox."""
        return not self._sandboxed and self._irreversible(page, action)

    async def step(self, place: Place, move: Move) -> StepResult:
        """Carry out an action on the page as it is now. DivergedError, and nothing is done, where it is another page
        than the one that the action was chosen on, has no such element, or the action seems irreversible there."""
        page, place.at = place.page, None
        if move.page is None or page is None or not same_page(move.page, page):
            raise DivergedError(f"{page and page.url} is not the page that {move.action.kind} was chosen on")
        action = find_again(move.action, move.page, page)
        if self.unsafe(page, action):
            raise DivergedError(f"{action_text(action, page.elements)} on {page.url} seems irreversible")
        result = await place.env.step(action)
        place.page = result.observation
        return result

    async def start(self, moves: Sequence[Move]) -> Observation:
        """What is seen at the root, to which `moves` lead from the start of the episode."""
        async with self.borrow() as place:
            return await self.reach(place, 0, moves, None)

    async def close(self) -> None:
        for place in self._all:
            await place.env.close()
        self._all, self._free = [], []
        self._saved.clear()
