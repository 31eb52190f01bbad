"""Episodes on a Ray cluster of several nodes on this machine, in PostgreSQL."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import BudgetError
from bestofq.learning.config import NetworkConfig
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.learning.value import ValueModel
from bestofq.models.chat import ChatConfig
from bestofq.models.prices import Budget
from bestofq.recipes.collect import Play, collect
from bestofq.rollouts.progress import LiveProgress
from bestofq.rollouts.workers import Shared
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq_sites.webshop.settings import WebShopSettings

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from bestofq.rollouts import cluster  # noqa: E402
from bestofq.rollouts.cluster import ClusterHosts, connect_cluster  # noqa: E402

EXPLORE = Play("explore", repeats=2)
SETTINGS = BestOfQSettings(suite=WebShopSettings(train_tasks=4, concurrency=1))
"""One episode at once in each process: with whom a request shares a batch changes last digits."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes that play, beside a head that does not."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # Ray's 15 would leave them what the other tests do not take
        health = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000}  # 5000 and 3000: more waiting
        head = {"num_cpus": 0, "include_dashboard": False, "no_monitor": True, "_system_config": health}
        made = Cluster(initialize_head=True, head_node_args={**head, "include_log_monitor": False})
        for _ in range(2):
            add_a_node(made)
        try:
            yield made
        finally:
            made.shutdown()


def add_a_node(nodes: Any) -> None:
    nodes.add_node(num_cpus=1, include_log_monitor=False)


def lose_a_node(nodes: Any) -> None:
    """SIGKILL of one that plays; another joins."""
    nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)
    add_a_node(nodes)


async def played(
    store: Store, hosts: ClusterHosts | None, settings: BestOfQSettings = SETTINGS, play: Play = EXPLORE
) -> None:
    async with open_suite(models := Models(settings)) as suite:
        await collect(models, suite, store, "seed", play, hosts=hosts)


def decisions(store: Store) -> dict[object, object]:
    """What was chosen at each step of each finished episode, and how it ended."""
    found: dict[object, object] = {}
    for one in store.summaries(run="seed"):
        episode = store.episode(one.id)
        found[one.key] = [step.decision.candidate.action for step in episode.steps], episode.verdict.outcome
    return found


def test_a_cluster_plays_what_one_process_plays_and_a_lost_node_costs_nothing(
    database: str, tmp_path: Path, nodes: Any
) -> None:
    where, model = (
        Location(database, str(tmp_path / "files")),
        SETTINGS.model.model_copy(update={"precision": "float32"}),
    )
    settings = SETTINGS.model_copy(update={"model": model})
    spec, small = Models(settings).embedder.spec, NetworkConfig(project=None, hidden=(8,))
    values = ValueModel(QNetwork(spec.dim, small), VNetwork(spec.dim, small), embed=spec, train_n=3, checkpoint="drawn")
    play = Play("best-of-q", repeats=2, values=values)
    with Store.open(tmp_path / "alone") as alone:
        asyncio.run(played(alone, None, settings, play))
        expected = decisions(alone)

    async def play_and_lose_a_node(store: Store) -> None:
        playing = asyncio.create_task(played(store, ClusterHosts(store=where), settings, play))
        while not store.summaries(run="seed") and not playing.done():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        steps = {one.id: one.steps for one in store.summaries(run="seed", status=None)}
        lose_a_node(nodes)
        await playing
        after = {one.id: one.steps for one in store.summaries(run="seed", status=None)}
        assert all(after[one] >= count for one, count in steps.items())

    with Store.open(where) as store, connect_cluster(nodes.address):
        asyncio.run(play_and_lose_a_node(store))
        assert len(store.summaries(run="seed")) == len(expected)
        assert not store.summaries(run="seed", status="running")
        assert decisions(store) == expected


async def test_all_processes_share_a_budget_and_their_steps_are_heard_of_as_they_come(
    database: str, tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []  # steps that the progress had heard of at the end of each command

    class Heard(LiveProgress):
        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            heard.append(self._steps)

    monkeypatch.setattr(cluster, "PULSE", 0.1)
    monkeypatch.setattr("bestofq.recipes.collect.LiveProgress", Heard)
    where, calls, tasks, steps = Location(database, str(tmp_path / "files")), 20, 4, 15
    stays = {"thought": "so", "note": "", "action": {"type": "click", "element": 1}}  # until the steps are used up

    async def played(budget: Budget, processes: int) -> None:
        async with open_suite(models := Models(settings, budget)) as suite:
            hosts = ClusterHosts(store=where, count=processes, shared=Shared(budget=budget))
            await collect(models, suite, store, "seed", Play("prompting"), hosts=hosts)

    async with FaultServer(lambda _: json.dumps({"candidates": [stays]}), seconds=0.15) as server:
        chat = ChatConfig(model="m", base_url=server.base_url, usd_in=10.0, usd_out=0.0)  # a call reads 100 tokens
        suite = WebShopSettings(train_tasks=tasks, concurrency=1, step_limit=steps)
        settings = BestOfQSettings(endpoints={"chat": chat}, suite=suite)
        with Store.open(where) as store, connect_cluster(nodes.address):
            with pytest.raises(BudgetError, match=r"allows 0\.02"):
                await played(Budget(calls * 0.001), processes=2)
            asked = len(server.requests)
            assert calls <= asked <= calls + 10  # those that were under way, and of a pulse's time; each alone: 40
            await played(Budget(), processes=1)
            assert sum(one.steps for one in store.summaries(run="seed")) == tasks * steps
    assert asked - 10 <= heard[0] <= asked  # though no episode had ended
    assert tasks * steps - asked <= heard[1] <= tasks * steps - heard[0]
