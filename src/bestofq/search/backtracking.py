"""Getting back to a page of the tree (Agent Q, 5.1.2)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bestofq.core.actions import Action
from bestofq.core.decision import StepResult
from bestofq.core.errors import InfraError, ModelError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Checkpointable, Env, EnvFactory
from bestofq.core.repeating import DivergedError, Unsafe, repeat, same_page
from bestofq.search.config import SearchConfig
from bestofq.search.tree import Move, MutableTree


@dataclass
class Backtracker:
    """Gets back to the pages of one tree. Its environment is made when first needed, and again after a failure.

    A `Checkpointable` environment is restored. In others the actions from the start are carried
    out again. Each page is compared with the earlier one, and each element is found again. An action is not carried out
    if it is `irreversible` on the page as it is now, or at the press.
    """

    make_env: EnvFactory
    task: Task
    config: SearchConfig
    irreversible: Unsafe | None  # None: a sandbox, where nothing is
    page: Observation | None = None  # what it shows
    _env: Env | None = None
    _at: int | None = None  # the node it stands at; None: unknown
    _saved: dict[int, object] = field(default_factory=dict)

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[Env]:
        """The environment for one rollout, wherever it stands. Where its machinery failed it is closed."""
        self._env = self._env or await self.make_env()
        try:
            yield self._env
        except BaseException as error:
            self._at = None
            if isinstance(error, InfraError) and not isinstance(error, ModelError):
                with suppress(InfraError):
                    await self._close()
            raise

    async def start(self) -> Observation:
        """What is seen where the episode starts, which is the root unless the agent has acted before."""
        async with self.ready() as env:
            page = self.page = await env.reset(self.task, seed=self.task.seed)
            await self.save(env, 0)
            return page

    async def save(self, env: Env, node: int) -> None:
        """Note that the environment stands at `node` now, and how to come back where it can."""
        self._at = node
        if isinstance(env, Checkpointable):
            self._saved[node] = await env.save()

    async def reach(self, env: Env, tree: MutableTree, node: int) -> None:
        """Put the environment at a node that was seen. DivergedError if a page is another now."""
        if self._at != node and isinstance(env, Checkpointable) and node in self._saved:
            self.page = await env.restore(self._saved[node])
        elif self._at != node:
            await self._replay(env, tree.moves(node))
        before = tree.seen[node]
        if before is None or self.page is None or not same_page(before, self.page):
            raise DivergedError(f"{before and before.url} shows {self.page and self.page.url} now")
        if node not in self._saved:
            await self.save(env, node)
        self._at = node

    async def _replay(self, env: Env, moves: list[Move]) -> None:
        self.page = await env.reset(self.task, seed=self.task.seed)
        for number, move in enumerate(moves, 1):
            result = await self.step(env, move)
            if (result.terminated or result.truncated) and number < len(moves):
                raise DivergedError(f"the episode ended after {number} of {len(moves)} actions that did not end it")

    async def step(self, env: Env, move: Move) -> StepResult:
        """Carry out an action on the page as it is now. DivergedError, and nothing is done, if it was chosen on
        another page, if the page has no such element, or if the action seems irreversible."""
        page, self._at = self.page, None
        if move.page is None or page is None:
            raise DivergedError(f"{page and page.url} is not the page that {move.action.kind} was chosen on")
        result = await repeat(env, move.action, move.page, page, self.irreversible)
        self.page = result.observation
        return result

    def unsafe(self, page: Observation, action: Action) -> bool:
        """Return whether the action must not be carried out on the page."""
        return self.irreversible is not None and self.irreversible(page, action)

    async def _close(self) -> None:
        env, self._env, self.page = self._env, None, None
        if env is not None:
            await env.close()

    async def aclose(self) -> None:
        self._saved.clear()
        await self._close()
