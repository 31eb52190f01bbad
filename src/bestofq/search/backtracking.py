"""Getting back to a page of the tree (Agent Q, 5.1.2)."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import get_args

from bestofq.core.actions import Action
from bestofq.core.decision import StepResult
from bestofq.core.errors import InfraError, ModelError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Checkpointable, Env, EnvFactory
from bestofq.core.repeating import DivergedError, Unsafe, repeat, same_page
from bestofq.core.tree import BacktrackCost, Way
from bestofq.core.usage import Usage
from bestofq.search.config import SearchConfig
from bestofq.search.tree import Move, MutableTree

WAYS: tuple[Way, ...] = get_args(Way)


@dataclass
class StepCosts:
    """Ways back so far: how many, and the seconds they took."""

    count: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    seconds: dict[Way, float] = field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))

    def add(self, way: Way, count: int, seconds: float) -> None:
        self.count[way] += count
        self.seconds[way] += seconds

    def to_tuple(self) -> tuple[BacktrackCost, ...]:
        return tuple(BacktrackCost(way=w, count=self.count[w], seconds=round(self.seconds[w], 4)) for w in WAYS)


@dataclass
class BranchSlot:
    """An environment, the node it stands at (None: unknown), and what it shows there."""

    env: Env
    at: int | None = None
    page: Observation | None = None


@dataclass
class EnvPool:
    """The environment of one tree, made when first needed, and again after its machinery failed.

    A `Checkpointable` environment is restored. In others the actions from the start are carried
    out again. Each page is compared with the earlier one, and each element is found again. An action is not carried out
    if it is `irreversible` on the page as it is now, or at the press.
    """

    make_env: EnvFactory
    task: Task
    config: SearchConfig
    irreversible: Unsafe | None  # None: a sandbox, where nothing is
    costs: StepCosts = field(default_factory=StepCosts)
    usage: list[Usage] = field(default_factory=list)  # of models that answered as users, replayed questions included
    _free: list[BranchSlot] = field(default_factory=list)
    _saved: dict[int, object] = field(default_factory=dict)

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[BranchSlot]:
        """The environment for one rollout, wherever it stands. It is closed where its machinery failed, since it may be
        broken."""
        slot = self._free.pop() if self._free else BranchSlot(await self.make_env())
        try:
            yield slot
        except BaseException as error:
            if isinstance(error, InfraError) and not isinstance(error, ModelError):
                with suppress(InfraError):
                    await slot.env.close()
            else:
                slot.at = None
                self._free.append(slot)
            raise
        self._free.append(slot)

    async def start(self) -> Observation:
        """What is seen where the episode starts, which is the root unless the agent has acted before."""
        async with self.borrow() as slot:
            started = time.perf_counter()
            page = slot.page = await slot.env.reset(self.task, seed=self.task.seed)
            await self.save(slot, 0)
            self.costs.add("replayed", 1, time.perf_counter() - started)
            return page

    async def save(self, slot: BranchSlot, node: int) -> None:
        """Note that the environment stands at `node` now, and how to come back where it can."""
        slot.at = node
        if isinstance(slot.env, Checkpointable):
            self._saved[node] = await slot.env.save()

    async def reach(self, slot: BranchSlot, tree: MutableTree, node: int) -> None:
        """Put the environment at a node that was seen. DivergedError, the node pruned, where a page is another now."""
        started = time.perf_counter()
        way: Way = "stayed"
        try:
            if slot.at != node and isinstance(slot.env, Checkpointable) and node in self._saved:
                way = "restored"
                slot.page = await slot.env.restore(self._saved[node])
            elif slot.at != node:
                way = "replayed"
                await self._replay(slot, tree.moves(node))
            self.costs.add(way, 1, time.perf_counter() - started)
            before = tree.seen[node]
            if before is None or slot.page is None or not same_page(before, slot.page):
                raise DivergedError(f"{before and before.url} shows {slot.page and slot.page.url} now")
        except DivergedError:
            tree.ending[node] = "pruned"
            raise
        if way == "replayed":
            await self.save(slot, node)
        slot.at = node

    async def _replay(self, slot: BranchSlot, moves: list[Move]) -> None:
        slot.page = await slot.env.reset(self.task, seed=self.task.seed)
        for number, move in enumerate(moves, 1):
            result = await self._step(slot, move)
            if (result.terminated or result.truncated) and number < len(moves):
                raise DivergedError(f"the episode ended after {number} of {len(moves)} actions that did not end it")

    async def carry_out(self, slot: BranchSlot, tree: MutableTree, node: int) -> StepResult:
        """Carry out the action that leads to `node`. DivergedError as `_step`, and the node is pruned."""
        try:
            return await self._step(slot, tree.move(node))
        except DivergedError:
            tree.ending[node] = "pruned"
            raise

    async def _step(self, slot: BranchSlot, move: Move) -> StepResult:
        """Carry out an action on the page as it is now. DivergedError, and nothing is done, if it was chosen on
        another page, if the page has no such element, or if the action seems irreversible."""
        page, slot.at = slot.page, None
        if move.page is None or page is None:
            raise DivergedError(f"{page and page.url} is not the page that {move.action.kind} was chosen on")
        result = await repeat(slot.env, move.action, move.page, page, self.irreversible)
        self.usage += result.usage
        slot.page = result.observation
        return result

    def unsafe(self, page: Observation, action: Action) -> bool:
        """Return whether the action must not be carried out on the page."""
        return self.irreversible is not None and self.irreversible(page, action)

    async def aclose(self) -> None:
        while self._free:
            await self._free.pop().env.close()
        self._saved.clear()
