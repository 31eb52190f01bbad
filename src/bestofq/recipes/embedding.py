"""Vectors of a training set, computed by the processes of a cluster. What the store has is not computed again, so the
same command goes on after a kill."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.core.concurrency import work_off
from bestofq.core.embedding import EmbedItem
from bestofq.recipes.q_training import episodes_of
from bestofq.rollouts.players import LostError
from bestofq.rollouts.progress import bar
from bestofq.rollouts.transitions import records, tabulate
from bestofq.store.location import Location
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

if TYPE_CHECKING:  # the extra `cluster`
    from bestofq.rollouts.cluster import Host, Hosts

log = logging.getLogger(__name__)
CHUNK = 512  # items that a process embeds before it is given others
AHEAD = 2  # chunks that each has: it waits for none


async def embed_there(
    models: Models, hosts: "Hosts", store: Store, learned: Sequence[EpisodeSummary], console: Console
) -> None:
    """Compute and keep the vectors that the training set of these episodes lacks."""
    table = tabulate(records(episodes_of(store, learned), models.texts, others=models.settings.iql.others))
    items = {item.key: item for item in table.items}
    known = store.vectors(models.embedder.spec).get_many([*items])
    lacking = [item for key, item in sorted(items.items()) if key not in known]  # shared contexts stay together
    todo: asyncio.Queue[Sequence[EmbedItem]] = asyncio.Queue()
    for start in range(0, len(lacking), CHUNK):
        todo.put_nowait(lacking[start : start + CHUNK])
    if todo.empty():
        return
    with bar(console) as shown:
        row = shown.add_task("embedding", total=len(items), completed=len(known))

        async def work(host: "Host") -> None:
            while True:
                await host.ready()
                chunk = await todo.get()
                try:
                    await host.do(chunk)
                    shown.advance(row, len(chunk))
                except LostError as error:
                    log.info("%d items are embedded again: %s", len(chunk), error)
                    todo.put_nowait(chunk)
                todo.task_done()

        async with hosts.opened(partial(_open_there, models.settings, hosts.store), AHEAD, store) as found:
            await work_off(todo, map(work, found))


@asynccontextmanager
async def _open_there(
    settings: BestOfQSettings, where: Location
) -> AsyncIterator[tuple[Callable[[Sequence[EmbedItem]], Awaitable[None]], str]]:
    models = Models(settings)
    with Store.open(where) as store:
        vectors, room = store.vectors(models.embedder.spec), asyncio.Lock()

        async def embed(items: Sequence[EmbedItem]) -> None:
            async with room:
                await asyncio.to_thread(models.embedder.embed_all, items, vectors, pictures=store.screenshots.load)

        yield embed, store.writer
