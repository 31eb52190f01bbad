"""What all embedders share: each distinct input is embedded once, and the requests of all episodes in flight join."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.observation import Screenshot
from bestofq.core.transitions import Floats
from bestofq.models.batching import MicroBatcher

_CHUNK = 512  # items of a data set between two commits
_REMEMBERED = 50_000  # vectors, at most


class VectorStore(Protocol):
    """Where vectors are kept between runs: `store.vectors.VectorCache`, or none."""

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Floats]: ...

    def put_many(self, vectors: Mapping[str, Floats]) -> None: ...


class Vector(NamedTuple):
    """One item's vector [D] and the tokens it took."""

    values: Floats
    tokens: int


class CachedEmbedder(ABC):
    """`Embedder` over `_compute`. An item that is wanted again while it is being embedded is waited for."""

    def __init__(self, spec: EmbedSpec, *, batch: int) -> None:
        self.spec = spec
        self._tasks: dict[str, asyncio.Task[Vector]] = {}
        self._kept: VectorStore | None = None
        self._batcher: MicroBatcher[EmbedItem, Vector] = MicroBatcher(self._compute_kept, limit=batch)

    @abstractmethod
    def _compute(self, items: Sequence[EmbedItem]) -> list[Vector]:
        """The vectors of distinct items, in their order. Called in a thread, one call at a time."""

    @contextmanager
    def save_to(self, store: VectorStore) -> Iterator[None]:
        """Within it, what `embed` computes is put into `store` too, where `embed_all` finds it in a later process."""
        before, self._kept = self._kept, store
        try:
            yield
        finally:
            self._kept = before

    def _compute_kept(self, items: Sequence[EmbedItem]) -> list[Vector]:
        vectors = self._compute(items)
        if self._kept is not None:
            self._kept.put_many({item.key: vector.values for item, vector in zip(items, vectors, strict=True)})
        return vectors

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        """Vectors [B, D] and the tokens they took, batched with requests in flight; each item is counted once."""
        vectors = await asyncio.gather(*map(self._vector, items))
        found = {item.key: vector.values for item, vector in zip(items, vectors, strict=True)}
        return self._stack_vectors(items, found), sum(vector.tokens for vector in vectors)

    async def _vector(self, item: EmbedItem) -> Vector:
        """One item's, with 0 tokens if it is known, or is being embedded for another."""
        known = self._tasks.get(item.key)
        # A caller that is cancelled leaves the work to the others that wait for it.
        vector = await asyncio.shield(known or self._begin(item))
        return Vector(vector.values, 0) if known else vector

    def embed_all(
        self,
        items: Sequence[EmbedItem],
        store: VectorStore | None = None,
        progress: Callable[[int], object] = lambda _: None,
        pictures: Callable[[Screenshot], Screenshot] | None = None,
    ) -> Floats:
        """Vectors [B, D] of a data set, without an event loop; known ones come from `store`, new ones go there.
        `progress` hears how many are done; `pictures` gives stored screenshots their bytes."""
        distinct = {item.key: item for item in items}
        found = dict(store.get_many(list(distinct))) if store is not None else {}
        progress(len(found))
        missing = (item for key, item in distinct.items() if key not in found)
        todo = sorted(missing, key=lambda item: (len(item.screenshots), len(item.text)))  # alike lengths together
        for start in range(0, len(todo), _CHUNK):
            chunk = todo[start : start + _CHUNK]
            computed = self._compute([_with_bytes(item, pictures) for item in chunk] if pictures else chunk)
            vectors = {item.key: vector.values for item, vector in zip(chunk, computed, strict=True)}
            found.update(vectors)
            if store is not None:
                store.put_many(vectors)
            progress(len(found))
        return self._stack_vectors(items, found)

    def _begin(self, item: EmbedItem) -> asyncio.Task[Vector]:
        task = asyncio.ensure_future(self._batcher.submit(item))

        def forget_failure(done: asyncio.Task[Vector]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._tasks.pop(item.key, None)

        task.add_done_callback(forget_failure)
        if len(self._tasks) >= _REMEMBERED:
            self._tasks.clear()
        self._tasks[item.key] = task
        return task

    def _stack_vectors(self, items: Sequence[EmbedItem], found: Mapping[str, Floats]) -> Floats:
        return np.stack([found[item.key] for item in items]) if items else np.zeros((0, self.spec.dim), np.float32)


def _with_bytes(item: EmbedItem, pictures: Callable[[Screenshot], Screenshot]) -> EmbedItem:
    loaded = tuple(shot if shot.data else pictures(shot) for shot in item.screenshots)
    return item.model_copy(update={"screenshots": loaded})
