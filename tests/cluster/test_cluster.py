"""Episodes on a Ray cluster of several nodes on this machine, in PostgreSQL."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bestofq.build.context import RunContext, open_suite
from bestofq.build.models import Models
from bestofq.build.settings import BestOfQSettings
from bestofq.envs.webshop.settings import WebShopSettings
from bestofq.recipes.collect import collect, collected
from bestofq.recipes.embedding import embed_there
from bestofq.recipes.players import Play
from bestofq.recipes.q_training import episodes_of, transitions_of
from bestofq.store.location import Location
from bestofq.store.store import Store

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from bestofq.rollouts.cluster import Hosts, connected  # noqa: E402

PLAY = Play("explore", repeats=2)  # one at once in each process: with whom a request shares a batch changes last digits
SETTINGS = BestOfQSettings(suite=WebShopSettings(train_tasks=4, concurrency=1))


@pytest.fixture
def nodes() -> Iterator[object]:
    """Two nodes that play, beside a head that does not."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    try:
        yield cluster
    finally:
        cluster.shutdown()


async def played(store: Store, hosts: Hosts | None) -> None:
    async with open_suite(models := Models(SETTINGS)) as suite:
        await collect(RunContext(models, suite, store, Console(quiet=True), hosts), "seed", PLAY)


def decisions(store: Store) -> dict[object, object]:
    """What was chosen at each step of each finished episode, and how it ended."""
    found: dict[object, object] = {}
    for one in store.summaries(run="seed"):
        episode = store.episode(one.id)
        found[one.key] = [step.decision.candidate.action for step in episode.steps], episode.verdict.outcome
    return found


def test_a_cluster_plays_what_one_process_plays_and_a_lost_node_costs_nothing(
    database: str, tmp_path: Path, nodes: object
) -> None:
    where = Location(database, str(tmp_path / "files"))
    with Store.open(tmp_path / "alone") as alone:
        asyncio.run(played(alone, None))
        expected = decisions(alone)

    async def play_and_lose_a_node(store: Store) -> None:
        playing = asyncio.create_task(played(store, Hosts(store=where)))
        while not store.summaries(run="seed") and not playing.done():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        steps = {one.id: one.steps for one in store.summaries(run="seed", status=None)}
        nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)  # type: ignore[attr-defined]
        nodes.add_node(num_cpus=1)  # type: ignore[attr-defined]
        await playing
        after = {one.id: one.steps for one in store.summaries(run="seed", status=None)}
        assert all(after[one] >= count for one, count in steps.items())

    with Store.open(where) as store, connected(nodes.address):  # type: ignore[attr-defined]
        asyncio.run(play_and_lose_a_node(store))
        assert len(store.summaries(run="seed")) == len(expected)
        assert not store.summaries(run="seed", status="running")
        assert decisions(store) == expected

        models, learned = Models(SETTINGS), collected(store, ["seed"])
        asyncio.run(embed_there(models, Hosts(store=where, count=1), store, learned, Console(quiet=True)))
        models.embedder._compute = None  # type: ignore[assignment,method-assign]
        assert len(transitions_of(models, episodes_of(store, learned), store, Console(quiet=True)))
