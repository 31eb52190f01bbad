"""Episodes on a Ray cluster: Ray places, restarts and reaches the processes; each plays as this one would.

What counts as played the database decides (`store/attempts.py`), so a process that is lost, or only seems so, costs
no more than the step it was at.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from bestofq.core.errors import SetupError
from bestofq.rollouts.players import LostError, Played, Player, Slot
from bestofq.rollouts.progress import Progress
from bestofq.store.location import Location
from bestofq.store.store import Store

log = logging.getLogger(__name__)
PAUSE = 1.0  # seconds between questions whether a lost process runs again
CLOSING = 30.0  # seconds that a process has to close its environments

Opens = Callable[[], AbstractAsyncContextManager[tuple[Player, str]]]
"""Called in a process of the cluster: who plays there, and the name by which that writes the store."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """This process as the driver of a cluster: `auto`, `host:port`, `ray://host:port`, or `local`, one of this machine.
    SetupError where there is none."""
    try:
        ray.init(None if address == "local" else address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SetupError(
            f"--cluster {address}: no Ray cluster answers ({error}): start one by `ray start --head`"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The processes that play, and what Ray keeps for each."""

    store: Location  # that all of them write
    count: int | None = None  # None: as many as the cluster has CPUs for
    cpus: float = 1.0
    gpus: float = 0.0

    @asynccontextmanager
    async def opened(
        self, opens: Opens, episodes: int, store: Store, progress: Progress
    ) -> AsyncIterator[list[Player]]:
        """A player for each episode that is played at once, so many in each process. The processes end with the
        context."""
        count = self.count or max(1, int(_cpus() // max(self.cpus, 0.01)))
        kind = ray.remote(_Host).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=-1, max_concurrency=episodes + 8
        )
        hosts = [_Reached(kind.remote(opens), store, progress) for _ in range(count)]
        try:
            yield [host for _ in range(episodes) for host in hosts]
        finally:
            await asyncio.gather(*(host.close() for host in hosts))


def _cpus() -> float:
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("CPU", 1.0)


class _Host:
    """A process of the cluster."""

    def __init__(self, opens: Opens) -> None:
        self._opens = opens
        self._stack = AsyncExitStack()
        self._player: Player | None = None
        self._name = ""
        self._opening = asyncio.Lock()

    async def open(self) -> str:
        """Its name as a writer, once it can play."""
        async with self._opening:
            if self._player is None:
                self._player, self._name = await self._stack.enter_async_context(self._opens())
        return self._name

    async def play(self, slot: Slot) -> Played:
        assert self._player is not None
        return await self._player.play(slot)

    async def close(self) -> None:
        await self._stack.aclose()


class _Reached:
    """A process of the cluster, as the driver reaches it."""

    def __init__(self, actor: Any, store: Store, progress: Progress) -> None:
        self._actor, self._store, self._progress = actor, store, progress
        self._writer = ""

    async def ready(self) -> None:
        while True:
            try:
                self._writer = await self._actor.open.remote()
                return
            except RayActorError as error:
                log.info("a process of the cluster is not there yet: %s", error)
                await asyncio.sleep(PAUSE)
            except RayTaskError as error:
                raise error.cause from None

    async def play(self, slot: Slot) -> Played:
        writer = self._writer
        if slot.begun is not None:
            await self._store.release(slot.begun.id)
        try:
            played: Played = await self._actor.play.remote(slot)
        except RayActorError as error:
            await self._store.dismiss(writer)
            raise LostError(str(error).splitlines()[0]) from error
        except RayTaskError as error:
            raise error.cause from None
        for used in played.used:
            self._progress.step(used)
        return played

    async def close(self) -> None:
        with suppress(RayActorError, TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(_of(self._actor.close.remote())), CLOSING)
        ray.kill(self._actor)


async def _of(reference: Any) -> Any:
    return await reference


class ClusterPlayer:
    """Plays in a process of the cluster: takes over what it is to go on with, and gives back what was cut."""

    def __init__(self, player: Player, store: Store) -> None:
        self._player, self._store = player, store

    async def ready(self) -> None:
        await self._player.ready()

    async def play(self, slot: Slot) -> Played:
        if (begun := slot.begun) is not None and not await self._store.take_over(
            begun.run, begun.agent, only=[begun.id]
        ):
            slot = replace(slot, begun=None)  # `begin_episode` says who has it
        played = await self._player.play(slot)
        if played.left is not None:
            await self._store.release(played.left.id)
        return played
