"""Episodes on a Ray cluster of several nodes on this machine: what survives when nodes and the driver are killed, how
close several nodes come to as many times one, and what Ray adds to an episode.

    python benchmarks/cluster.py kills --out benchmarks/results/cluster_kills.json
    python benchmarks/cluster.py kills --browser --episodes 100 --out benchmarks/results/cluster_kills_browser.json
    python benchmarks/cluster.py efficiency --out benchmarks/results/cluster_efficiency.json
    python benchmarks/cluster.py overhead --out benchmarks/results/cluster_overhead.json

The episodes are those of the synthetic shop by a scripted model behind an endpoint on loopback, which takes
`--seconds` for a reply; they are kept in a PostgreSQL of their own. The driver is `bestofq collect` in a process.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

sys.path.extend(str(Path(__file__).parent.parent / "tests" / part) for part in ("", "cli"))
from postgres import postgresql
from test_search_command import shopper

from bestofq.core.decision import Verdict
from bestofq.core.observation import Task
from bestofq.rollouts.cluster import ClusterHosts, connect_cluster
from bestofq.rollouts.runner import EpisodeSlot, Played
from bestofq.rollouts.workers import Do, Shared
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

POLL = 0.25  # seconds
Steps = dict[str, int]  # committed, by episode


class Site:
    """A cluster, an endpoint and a database; the command that plays with them."""

    def __init__(self, nodes: int, folder: Path, database: str, endpoint: str, given: argparse.Namespace) -> None:
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(nodes):
            self.cluster.add_node(num_cpus=1)
        self.where = Location(database, str(folder / "files"))
        self.log, self.run = folder / "driver.log", f"on{nodes}"
        settings = {
            "endpoints.chat.model": "m",
            "endpoints.chat.base_url": endpoint,
            "suite.env": "browser" if given.browser else "text",
            "suite.concurrency": given.at_once,
            "cluster.processes": nodes,
        }
        self.words = ["collect", "webshop", "--agent", "prompting", "--run", self.run, "--store", database]
        self.words += ["--files", str(self.where.files), "--cluster", str(self.cluster.address)]
        self.words += ["--tasks", str(given.episodes), "--repeats", "1"]
        self.words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def drive(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "bestofq.cli.main", *self.words]
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OPENAI_API_KEY": "none"})

    def kill_a_node(self, rng: random.Random) -> None:
        """SIGKILL of its raylet, whose processes end with it; then another joins."""
        node = rng.choice([one for one in self.cluster.list_all_nodes() if one is not self.cluster.head_node])
        self.cluster.remove_node(node, allow_graceful=False)
        self.cluster.add_node(num_cpus=1)


async def kills(given: argparse.Namespace, database: str, folder: Path, endpoint: str) -> dict[str, Any]:
    rng, nodes_killed, drivers_killed, lost = random.Random(given.seed), 0, 0, 0
    site = Site(given.nodes, folder, database, endpoint, given)
    Store.open(site.where).close()
    seen: Steps = {}
    with Store.open(site.where, read_only=True) as store:
        began, driver = time.monotonic(), site.drive()
        due = began + given.every
        while driver.poll() is None:
            await asyncio.sleep(POLL)
            if time.monotonic() < due:
                continue
            due = time.monotonic() + given.every
            seen = await asyncio.to_thread(steps_of, store, site.run)
            done = len(store.summaries(run=site.run))
            if drivers_killed < given.drivers and done > given.episodes * (drivers_killed + 1) / (given.drivers + 1):
                driver.send_signal(signal.SIGKILL)
                driver.wait()
                drivers_killed += 1
                driver = site.drive()
            else:
                site.kill_a_node(rng)
                nodes_killed += 1
            after = await asyncio.to_thread(steps_of, store, site.run)
            lost += sum(after.get(one, 0) < count for one, count in seen.items())
        ended = steps_of(store, site.run)
        lost += sum(ended.get(one, 0) < count for one, count in seen.items())
        every = store.summaries(run=site.run, status=None)
        finished = [one for one in every if one.status == "finished"]
    seconds = time.monotonic() - began
    site.cluster.shutdown()
    await asyncio.sleep(5)
    return {
        "driver": driver.returncode,
        "said": site.log.read_text("utf-8")[-400:] if driver.returncode else "",
        "seconds": round(seconds, 1),
        "nodes_killed": nodes_killed,
        "drivers_killed": drivers_killed,
        "slots": given.episodes,
        "finished": len(finished),
        "slots_finished": len({one.key for one in finished}),
        "attempts": len(every),
        "steps": sum(ended.values()),
        "episodes_that_lost_committed_steps": lost,
        "chromium_left": chromium_left(),
    }


def steps_of(store: Store, run: str) -> Steps:
    """Those that can be read back, of every attempt."""
    return {one.id: len(store.episode(one.id).steps) for one in store.summaries(run=run, status=None)}


def chromium_left() -> int:
    return sum(b"headless" in name.read_bytes() for name in Path("/proc").glob("[0-9]*/cmdline") if name.exists())


async def efficiency(given: argparse.Namespace, database: str, folder: Path, endpoint: str) -> dict[str, Any]:
    """Steps a second, once all processes play, on one node and on several; `per` episodes each, so that all last as
    long. Ideal: a reply's time for each step, and nothing else."""
    found = {}
    per = given.episodes
    for nodes in (1, given.nodes):
        given.episodes = per * nodes
        site = Site(nodes, folder, database, endpoint, given)
        Store.open(site.where).close()
        times: list[tuple[float, int]] = []
        with Store.open(site.where, read_only=True) as store:
            driver = site.drive()
            while driver.poll() is None:
                await asyncio.sleep(2)
                times.append((time.monotonic(), sum(steps_of(store, site.run).values())))
        site.cluster.shutdown()
        last = times[-1][1]
        window = [(at, count) for at, count in times if 0.2 * last <= count <= 0.7 * last]
        (a, m), (b, n) = window[0], window[-1]
        found[nodes] = {"steps_per_second": (n - m) / (b - a), "ideal": nodes * given.at_once / given.seconds}
    one, many = found[1]["steps_per_second"], found[given.nodes]["steps_per_second"]
    return {"nodes": found, "efficiency": many / (given.nodes * one)}


async def _idle(slot: EpisodeSlot) -> Played:
    """Plays nothing, at once."""
    return Verdict(reward=1.0, outcome="success"), None


@asynccontextmanager
async def _opened(_: Shared) -> AsyncIterator[tuple[Do, str]]:
    yield _idle, ""


async def overhead(given: argparse.Namespace, database: str, folder: Path, endpoint: str) -> dict[str, Any]:
    """What an episode of no work costs, one after another and `at_once` at once, in ms."""
    slot, found = EpisodeSlot(Task(suite="webshop", id="1", goal="Buy it", start_url="http://shop/"), 0), {}
    where = Location(database, str(folder / "files"))
    with connect_cluster("local"), Store.open(where) as store:
        cluster = ClusterHosts(store=where, count=1)
        async with cluster.open_hosts(_opened, given.at_once, store, lambda used: None) as hosts:
            await hosts[0].ready()
            for name, at_once in (("alone", 1), ("at_once", given.at_once)):
                began = time.perf_counter()
                for _ in range(given.episodes // at_once):
                    await asyncio.gather(*(host.do(slot) for host in hosts[:at_once]))
                found[name] = 1000 * (time.perf_counter() - began) / given.episodes
    return {"ms_per_episode": found}


async def measured(given: argparse.Namespace) -> dict[str, Any]:
    with postgresql() as database, tempfile.TemporaryDirectory() as folder:
        async with FaultServer(shopper, seconds=given.seconds) as server:
            return await globals()[given.what](given, database, Path(folder), server.base_url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "efficiency", "overhead"])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=500, help="in all; of efficiency, for each node")
    parser.add_argument("--at-once", type=int, default=4, help="episodes, in each process")
    parser.add_argument("--seconds", type=float, default=0.5, help="that the model takes")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills")
    parser.add_argument("--drivers", type=int, default=2, help="times that the driver is killed")
    parser.add_argument("--browser", action="store_true", help="the shop's pages in Chromium")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    asked = {name: value for name, value in vars(given).items() if name != "out"}
    result = {
        "command": "python " + " ".join(sys.argv),
        **asked,
        "commit": subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "ray": ray.__version__,
        **asyncio.run(measured(given)),
    }
    said = json.dumps(result, indent=1)
    sys.stdout.write(said + "\n")
    if given.out is not None:
        given.out.write_text(said + "\n", "utf-8")


if __name__ == "__main__":
    main()
