"""Work on a Ray cluster: processes that do items as this one would.

Ray places, restarts and reaches the processes. The database decides what counts as played (`store/attempts.py`), so a
process that is lost, or only seems so, costs no more than the step it was at.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from bestofq.core.errors import SetupError
from bestofq.core.usage import Usage
from bestofq.models.prices import Budget
from bestofq.rollouts.workers import Do, LostError, Opens, Report, Shared, Worker
from bestofq.store.location import Location
from bestofq.store.store import Store

log = logging.getLogger(__name__)
PULSE = 1.0  # seconds between news of a process; longer if there are more than HEARD
HEARD = 100  # processes a pulse, at most
PAUSE = 1.0  # seconds between questions whether a lost process runs again
CLOSING = 30.0  # seconds that a process has to close its environments


@contextmanager
def connect_cluster(address: str) -> Iterator[None]:
    """This process as the driver of a cluster: `auto`, `host:port`, `ray://host:port`, or `local`, one of this machine.
    SetupError where there is none."""
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SetupError(
            f"--cluster {address}: no Ray cluster answers ({error}): start one by `ray start --head`"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@dataclass(frozen=True, kw_only=True)
class ClusterHosts:
    """`Hosts` of a Ray cluster, and what Ray keeps for each."""

    store: Location  # that all of them write
    count: int | None = None  # None: as many as the cluster has CPUs for
    cpus: float = 1.0
    gpus: float = 0.0
    shared: Shared = field(default_factory=Shared)

    @asynccontextmanager
    async def open_hosts(self, opens: Opens, at_once: int, store: Store, report: Report) -> AsyncIterator[list[Worker]]:
        """Yield each process as often as it does items at once. They end with the context."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        count = self.count or max(1, int(resources.get("CPU", 0.0) // max(self.cpus, 0.01)))
        kind = ray.remote(_HostProcess).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=-1, max_concurrency=at_once + 8
        )
        shared_opens = ray.put(opens)  # once, with its Q-function
        hosts = [Host(kind.remote(), shared_opens, self.shared, store) for _ in range(count)]
        end, every = asyncio.Event(), PULSE * max(1.0, count / HEARD)
        listening = [asyncio.create_task(host.listen(report, every, end)) for host in hosts]
        try:
            yield [Worker(host.do, host.ready) for _ in range(at_once) for host in hosts]
        finally:
            end.set()
            await asyncio.gather(*map(Host.close, hosts, listening))


class _HostProcess:
    """A process of the cluster, in itself."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._does: Do | None = None
        self._name, self._shared, self._told = "", Shared(), 0.0
        self._opening = asyncio.Lock()

    async def open(self, opens: Opens, shared: Shared) -> str:
        """Return the name by which it writes the store."""
        async with self._opening:
            if self._does is None:
                self._shared = shared
                self._does, self._name = await self._stack.enter_async_context(opens(shared))
        return self._name

    async def news(self, spent: float) -> tuple[float, list[Sequence[Usage]]]:
        """USD that it has spent and steps that it has made since it was last asked; `spent`: by the command, as far as
        that knows."""
        budget, steps = self._shared.budget, self._shared.steps[:]
        budget.elsewhere = spent - self._told
        spent_since, self._told = budget.spent - self._told, budget.spent
        self._shared.steps.clear()
        return spent_since, steps

    async def do(self, item: Any) -> Any:
        if self._does is None:
            raise LostError("it has begun again since it said that it was ready")
        return await self._does(item)

    async def close(self) -> None:
        await self._stack.aclose()


class Host:
    """A process of the cluster, as the driver reaches it."""

    def __init__(self, actor: Any, opens: Any, shared: Shared, store: Store) -> None:
        self._actor, self._opens, self._shared, self._store = actor, opens, shared, store
        self._writer = ""

    async def ready(self) -> None:
        budget = self._shared.budget
        while True:
            try:
                shared = replace(self._shared, budget=Budget(budget.limit, elsewhere=budget.total))
                self._writer = await self._actor.open.remote(self._opens, shared)
                return
            except RayActorError as error:
                log.info("a process of the cluster is not there yet: %s", error)
                await asyncio.sleep(PAUSE)
            except RayTaskError as error:
                raise error.cause from None

    async def do(self, item: Any) -> Any:
        """LostError where the process dies; what it does not finish is nobody's then. Else as what it does."""
        writer = self._writer
        try:
            return await self._actor.do.remote(item)
        except RayActorError as error:
            await self._store.dismiss(writer)
            if isinstance(error, ActorUnavailableError) and writer == self._writer:
                self._writer = ""
                ray.kill(self._actor, no_restart=False)  # it may live, and can commit nothing more
            raise LostError(str(error).splitlines()[0]) from error
        except RayTaskError as error:
            raise error.cause from None

    async def listen(self, report: Report, every: float, end: asyncio.Event) -> None:
        """Tell the process now and then what the command has spent, and hear what it has, and of its steps."""
        budget = self._shared.budget
        while not end.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), every)
            if self._writer:
                with suppress(RayActorError):
                    spent, steps = await self._actor.news.remote(budget.total)
                    budget.elsewhere += spent
                    for used in steps:
                        report(used)

    async def close(self, listening: asyncio.Task[None]) -> None:
        try:
            if self._writer:
                async with asyncio.timeout(CLOSING):
                    await listening
                    await self._actor.close.remote()
        except (RayActorError, RayTaskError, TimeoutError) as error:  # it ends now anyway, and may still be playing
            log.info("a process of the cluster was not closed: %s", error)
        listening.cancel()
        ray.kill(self._actor)
