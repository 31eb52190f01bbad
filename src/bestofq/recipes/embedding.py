"""Vectors of a training set, computed by the processes of a cluster. What the store has is not computed again, so the
same command goes on after a kill."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedItem
from bestofq.recipes.q_training import episodes_of
from bestofq.rollouts.progress import bar
from bestofq.rollouts.shared import Shared
from bestofq.rollouts.transitions import tabulate
from bestofq.rollouts.workers import Worker, queue_of, work_off
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Hosts

CHUNK = 512  # items that a process embeds before it is given others
AHEAD = 2  # chunks that each has: it waits for none


async def embed_there(models: Models, hosts: "Hosts", store: Store, learned: Sequence[EpisodeSummary]) -> None:
    """Compute and keep the vectors that the training set of these episodes lacks."""
    table = tabulate(episodes_of(store, learned), models.texts, others=models.settings.iql.others)
    items = {item.key: item for item in table.items}
    known = store.vectors(models.embedder.spec).get_many([*items])
    lacking = [item for key, item in sorted(items.items()) if key not in known]  # shared contexts stay together
    if not lacking:
        return
    todo = queue_of(lacking[start : start + CHUNK] for start in range(0, len(lacking), CHUNK))
    with bar() as shown:
        row = shown.add_task("embedding", total=len(items), completed=len(known))

        async def embed(worker: Worker, chunk: Sequence[EmbedItem]) -> None:
            await worker.do(chunk)
            shown.advance(row, len(chunk))

        async with hosts.open_hosts(partial(_open_there, models.settings, hosts.store), AHEAD, store) as found:
            await work_off(todo, found, embed)


@asynccontextmanager
async def _open_there(
    settings: BestOfQSettings, where: Location, shared: Shared
) -> AsyncIterator[tuple[Callable[[Sequence[EmbedItem]], Awaitable[None]], str]]:
    models = Models(settings, shared.budget, shared.models)
    with Store.open(where) as store:
        vectors, room = store.vectors(models.embedder.spec), asyncio.Lock()

        async def embed(items: Sequence[EmbedItem]) -> None:
            async with room:
                await asyncio.to_thread(models.embedder.embed_all, items, vectors, pictures=store.screenshots.load)

        yield embed, store.writer
