"""Vectors of a training set, computed by the processes of a cluster. The store keeps them, so the same command
continues after a kill."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bestofq.config.context import OpenSuite, open_workers
from bestofq.config.models import Models
from bestofq.core.embedding import EmbedItem
from bestofq.recipes.q_training import episodes_of
from bestofq.rollouts.progress import bar
from bestofq.rollouts.transitions import tabulate
from bestofq.rollouts.workers import Do, Report, Worker, work_off
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Hosts

CHUNK = 512  # items that a process embeds before it gets others
AHEAD = 2  # chunks that each process has, so that it never waits


async def embed_there(models: Models, hosts: "Hosts", store: Store, learned: Sequence[EpisodeSummary]) -> None:
    """Compute and keep the vectors that the training set of these episodes lacks."""
    table = tabulate(episodes_of(store, learned), models.texts, others=models.settings.iql.others)
    items = {item.key: item for item in table.items}
    known = store.vectors(models.embedder.spec).get_many([*items])
    lacking = [item for key, item in sorted(items.items()) if key not in known]  # shared contexts stay together
    if not lacking:
        return
    with bar() as shown:
        row = shown.add_task("embedding", total=len(items), completed=len(known))

        async def embed(worker: Worker, chunk: Sequence[EmbedItem]) -> None:
            await worker.do(chunk)
            shown.advance(row, len(chunk))

        chunks = [lacking[start : start + CHUNK] for start in range(0, len(lacking), CHUNK)]
        async with open_workers(_open_embedder, models, None, store, at_once=AHEAD, hosts=hosts) as workers:
            await work_off(chunks, workers, embed)


@asynccontextmanager
async def _open_embedder(models: Models, _: OpenSuite | None, store: Store, report: Report) -> AsyncIterator[Do]:
    vectors, room = store.vectors(models.embedder.spec), asyncio.Lock()

    async def embed(items: Sequence[EmbedItem]) -> None:
        async with room:
            await asyncio.to_thread(models.embedder.embed_all, items, vectors, pictures=store.screenshots.load)

    yield embed
