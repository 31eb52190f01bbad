"""Local models in Ray actors of their own, asked by all processes of a cluster: requests of all episodes share batches.

Ray restarts an actor that is lost, and asks it again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.errors import ConfigError, ModelError
from bestofq.core.language import Generation, Request
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture
from bestofq.models.cached_embedder import CachedEmbedder, Vector
from bestofq.models.chat import ChatConfig

AGAIN = 10  # times that a request is repeated whose actor was lost: then it is to blame
AT_ONCE = 10_000  # requests of an actor, which its batches gather
EMBEDDED = 256  # items that a process asks for at once


class _Actor:
    """The models of a command's settings, each loaded here when it is first asked."""

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
        """What `ray.get` and `await` wait for."""
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
