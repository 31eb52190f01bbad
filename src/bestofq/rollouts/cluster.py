"""Work on a Ray cluster: processes that do items as this one would, and actors that hold local models for them.

Ray places, restarts and reaches the processes. The database decides what counts as played (`store/attempts.py`), so a
process that is lost, or only seems so, costs no more than the step it was at.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ModelError, SetupError
from bestofq.core.language import Generation, Request
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture
from bestofq.core.usage import Usage
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.chat import ChatConfig
from bestofq.models.prices import Budget
from bestofq.rollouts.workers import Do, LostError, Report, Shared, Worker
from bestofq.store.location import Location
from bestofq.store.store import Store

log = logging.getLogger(__name__)
PULSE = 1.0  # seconds between news of a process; longer if there are more than HEARD
HEARD = 100  # processes a pulse, at most
PAUSE = 1.0  # seconds between questions whether a lost process runs again
CLOSING = 30.0  # seconds that a process has to close its environments
AGAIN = 10  # times that a request is repeated after its actor was lost; then it is to blame
AT_ONCE = 10_000  # requests of an actor, which its batches gather
EMBEDDED = 256  # items that a process has embedded at once

Opens = Callable[[Shared], AbstractAsyncContextManager[tuple[Do, str]]]
"""Called in a process of the cluster: what it does with an item, and the name by which it writes the store."""


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
class Hosts:
    """The processes that play, and what Ray keeps for each."""

    store: Location  # that all of them write
    count: int | None = None  # None: as many as the cluster has CPUs for, beside the models
    cpus: float = 1.0
    gpus: float = 0.0
    shared: Shared = field(default_factory=Shared)

    @asynccontextmanager
    async def open_hosts(self, opens: Opens, at_once: int, store: Store, report: Report) -> AsyncIterator[list[Worker]]:
        """Yield each process as often as it does items at once. They end with the context."""
        taken = 0.0 if self.shared.models is None else self.shared.models.cpus
        count = self.count or max(1, int((resources("CPU") - taken) // max(self.cpus, 0.01)))
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


def resources(name: str) -> float:
    """CPU or GPU that the nodes of the cluster have."""
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return found.get(name, 0.0)


class _HostProcess:
    """A process of the cluster, in itself."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._does: Do | None = None
        self._name, self._shared, self._told = "", Shared(), 0.0
        self._opening = asyncio.Lock()

    async def name(self) -> str:
        return self._name

    async def open(self, opens: Opens, shared: Shared) -> str:
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
                self._writer = await self._actor.name.remote() or await self._actor.open.remote(
                    self._opens, replace(self._shared, budget=Budget(budget.limit, elsewhere=budget.total))
                )
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
                await asyncio.wait_for(listening, CLOSING)
                await asyncio.wait_for(_of(self._actor.close.remote()), CLOSING)
        except (RayActorError, RayTaskError, TimeoutError) as error:  # it ends now anyway, and may still be playing
            log.info("a process of the cluster was not closed: %s", error)
        listening.cancel()
        ray.kill(self._actor)


async def _of(reference: Any) -> Any:
    return await reference


class _Actor:
    """The models of a command's settings, each loaded here at its first request."""

    def __init__(self, make_models: Callable[[], Any]) -> None:
        self._models = make_models()

    async def generate(self, role: ChatConfig | None, request: Request) -> Generation:
        model = self._models.local if role is None else self._models.in_role(role)
        generation: Generation = await model.generate(request)
        return generation

    async def vectors(self, items: Sequence[EmbedItem]) -> list[Vector]:
        embedder: CachedEmbedder = self._models.embedder
        return await embedder.vectors(items)

    async def spec(self) -> EmbedSpec:
        spec: EmbedSpec = self._models.embedder.spec
        return spec


class ModelActors:
    """The actors, found by their names and asked in turn."""

    def __init__(self, names: Sequence[str], cpus: float) -> None:
        self.cpus = cpus  # that Ray keeps for all of them
        self._names, self._turn = names, 0

    @cached_property
    def _actors(self) -> list[Any]:
        return [ray.get_actor(name) for name in self._names]

    def ask(self, method: str, *given: Any) -> Any:
        self._turn += 1
        return getattr(self._actors[self._turn % len(self._names)], method).remote(*given)


@contextmanager
def start_actors(make_models: Callable[[], Any], count: int, *, cpus: float, gpus: float) -> Iterator[ModelActors]:
    """So many actors, which end with the context; `make_models` gives the `config.models.Models` of each, for which Ray
    keeps `cpus` and `gpus`."""
    names = [f"models-{number}" for number in range(count)]
    kind: Any = ray.remote(_Actor)
    kept = {"num_cpus": cpus, "num_gpus": gpus, "max_concurrency": AT_ONCE}
    lost = {"max_restarts": -1, "max_task_retries": AGAIN}
    actors = [kind.options(name=name, **kept, **lost).remote(make_models) for name in names]
    try:
        yield ModelActors(names, count * cpus)
    finally:
        for actor in actors:
            ray.kill(actor)


@contextmanager
def _errors() -> Iterator[None]:
    """Those of the model, as it raised them; ModelError where its actor is lost again and again."""
    try:
        yield
    except RayTaskError as error:
        raise error.cause from None
    except RayActorError as error:
        raise ModelError(
            f"the actor of a local model was lost {AGAIN + 1} times: {str(error).splitlines()[0]}"
        ) from error


@dataclass(frozen=True)
class ActorModel:
    """`VisionModel` over the local model of a role, or over the one that proposes, in the actors."""

    actors: ModelActors
    path: str
    role: ChatConfig | None = None

    @property
    def name(self) -> str:
        return Path(self.path).name

    async def picture(self, screenshot: Screenshot, pixels: int | None = None) -> Picture:
        """ConfigError: it reads texts alone."""
        raise ConfigError(f"{self.name} reads no pictures: ask it in texts alone, or a model behind --base-url")

    async def generate(self, request: Request) -> Generation:
        """Errors as `LocalModel`'s."""
        with _errors():
            generation: Generation = await self.actors.ask("generate", self.role, request)
        return generation


class ActorEmbedder(CachedEmbedder):
    """`Embedder` over the one in the actors."""

    def __init__(self, actors: ModelActors) -> None:
        """Once its model is loaded there; errors as of loading it."""
        with _errors():
            spec: EmbedSpec = ray.get(actors.ask("spec"))
        super().__init__(spec, batch=EMBEDDED)
        self._actors = actors

    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        with _errors():
            found: list[Vector] = ray.get(self._actors.ask("vectors", list(items)))
        return [Vector(vector.values.copy(), vector.tokens) for vector in found]  # Ray's memory is let go of
