"""How many steps several processes commit to one PostgreSQL store, and how long its lists take with many episodes.

    python benchmarks/store_writers.py --out benchmarks/results/store_writers.json

A PostgreSQL server of its own (Debian's, in /usr/lib/postgresql, at its default settings: fsync and synchronous_commit
on) is started in a temporary folder on loopback. Each writer is a process that commits one step a transaction and goes
on once that is acknowledged; pages have fifteen links (tests/store/store_nouns.py), and each is new. Then come the
queries behind the lists of viewer and report, over `--episodes` episodes of four steps by five agents, on PostgreSQL
and SQLite; of each the least wall time of some repeats.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import create_engine, insert, select, text

from bestofq.core.decision import Episode, Provenance, Verdict
from bestofq.reports import stats
from bestofq.reports.rows import read_rows
from bestofq.reports.success import agent_results
from bestofq.store.location import Location
from bestofq.store.records import EpisodeFilter
from bestofq.store.schema import EPISODES, STEPS, add_checksum
from bestofq.store.store import Store

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "store"))
from postgres import postgresql
from store_nouns import page, step, task

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "commit_delay", "shared_buffers")
SOURCE = Provenance(version="benchmark")
AGENTS, TASKS, RUNS, REPEATS, EPISODE = 5, 1000, 5, 5, 30
WON, LOST = Verdict(reward=1.0, outcome="success"), Verdict(reward=0.0, outcome="failure", reason="out of steps")


def write(where: Location, seconds: float, begin: Any, counted: Any) -> None:
    """Commit steps from the moment that all are ready, and say how many were acknowledged, and the seconds of CPU."""

    async def work() -> tuple[int, float]:
        with Store.open(where) as store:
            await store.begin_run("r", {}, SOURCE)
            made = step(0)
            begin.wait()
            until, done, spent = time.monotonic() + seconds, 0, time.process_time()
            while time.monotonic() < until:
                episode = await store.begin_episode("r", f"a{os.getpid()}", task(f"t{done}"), 0, SOURCE)
                for index in range(EPISODE):
                    seen = made.observation.model_copy(update={"url": f"http://shop/{os.getpid()}/{done}"})
                    await store.append_step(episode, made.model_copy(update={"index": index, "observation": seen}))
                    done += 1
                await store.finish_episode(episode, LOST, None)
            return done, time.process_time() - spent

    counted.put(asyncio.run(work()))


def committed(where: Location, writers: int, seconds: float) -> dict[str, int]:
    """Steps a second of all of them, and what one took of their processors' time (the server's comes on top)."""
    context = multiprocessing.get_context("spawn")
    begin, counted = context.Barrier(writers), context.Queue()
    each = [context.Process(target=write, args=(where, seconds, begin, counted)) for _ in range(writers)]
    for one in each:
        one.start()
    found = [counted.get(timeout=seconds + 60) for _ in each]
    done, spent = sum(steps for steps, _ in found), sum(cpu for _, cpu in found)
    for one in each:
        one.join()
    return {
        "steps a second": round(done / seconds),
        "microseconds of the writers' CPU a step": round(1e6 * spent / done),
    }


async def fill(where: Location, episodes: int) -> None:
    """An episode of each task by the store's own means, then copies of its rows for all agents, repeats and runs."""
    with Store.open(where) as store:
        for run in range(1 + episodes // TASKS // AGENTS // RUNS):
            await store.begin_run(f"run-{run}", {}, SOURCE)
        for start in range(0, TASKS, 250):
            await asyncio.gather(*(store.add_episode(episode(n), 0) for n in range(start, start + 250)))
        with store._engine.begin() as connection:
            first = [row._asdict() for row in connection.execute(select(EPISODES).order_by(EPISODES.c.id))]
            steps: dict[str, list[dict[str, Any]]] = {}
            for row in connection.execute(select(STEPS)):
                steps.setdefault(row.episode, []).append(row._asdict())
            for start in range(TASKS, episodes, TASKS):
                copies = [copy(first[n % TASKS], n) for n in range(start, min(episodes, start + TASKS))]
                connection.execute(insert(EPISODES), copies)
                some = [
                    add_checksum(STEPS, one | {"episode": of["id"]})
                    for n, of in enumerate(copies)
                    for one in steps[first[n]["id"]]
                ]
                connection.execute(insert(STEPS), some)


def episode(number: int) -> Episode:
    return Episode(
        id=f"{number:016x}",
        run="run-0",
        agent="agent-0",
        task=task(f"site{number % 10}--{number}"),
        steps=tuple(step(index, 4 * number + index, last=index == 3) for index in range(4)),
        final=page(4 * number),
        verdict=WON if number % 3 else LOST,
        provenance=SOURCE.model_copy(update={"started_at": at(number)}),
    )


def copy(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    turn = number // TASKS
    agent, repeat, run = turn % AGENTS, turn // AGENTS % RUNS, turn // AGENTS // RUNS
    verdict = WON if (number + turn) % 3 else LOST
    own: dict[str, Any] = {"id": f"{number:016x}", "run": f"run-{run}", "agent": f"agent-{agent}", "repeat": repeat}
    said = {"verdict": verdict.model_dump_json(exclude_defaults=True), "outcome": verdict.outcome}
    said |= {"checkpoint": f"value-{run}"} if agent == AGENTS - 1 else {}
    return add_checksum(EPISODES, {**row, **own, **said, "started_at": at(number), "ended_at": at(number + 40)})


def at(second: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).isoformat()


def queries(store: Store, episodes: int) -> dict[str, Callable[[], object]]:
    lists = store.catalogue
    all_, found = EpisodeFilter(), EpisodeFilter(run="run-0", agent="agent-1", outcome="success")
    [middle] = lists.episodes(all_, offset=episodes // 2, limit=1)
    return {
        "agents of all runs": lists.agents,
        "runs": lists.runs,
        "choices": lists.choices,
        "count": lambda: lists.count(all_),
        "count, narrowed": lambda: lists.count(found),
        "newest 50": lambda: lists.episodes(all_),
        "50 in the middle": lambda: lists.episodes(all_, offset=episodes // 2),
        "50, narrowed": lambda: lists.episodes(found),
        "50, by a part of a task's name": lambda: lists.episodes(EpisodeFilter(find="site7--77")),
        "the place of an episode": lambda: lists.beside(middle, all_),
        "25 tasks": lambda: lists.tasks(EpisodeFilter(run="run-0")),
        "tasks on which agents differ": lambda: lists.count_tasks(EpisodeFilter(run="run-0"), differing=True),
        "all summaries, as a report reads them": store.summaries,
        "all summaries, and the rows of a table that they are of": lambda: read_rows(store),
        "the table of success, 2 resamples": lambda: with_two_resamples(store),
        "the table of success": lambda: agent_results(store),
        "one episode": lambda: lists.episode(middle.id),
    }


def with_two_resamples(store: Store) -> None:
    with patch.object(stats, "RESAMPLES", 2):
        agent_results(store)


def listed(where: Location, episodes: int) -> dict[str, float]:
    """Milliseconds."""

    def least(work: Callable[[], object]) -> float:
        taken = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
        return round(1000 * min(taken), 1)

    with Store.open(where, read_only=True) as store:
        return {name: least(work) for name, work in queries(store, episodes).items()}


def schema(address: str, name: str) -> str:
    """An empty schema of the database, by its address."""
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{address}?options=-csearch_path%3D{name}"


def ask(address: str, *words: str) -> list[str]:
    engine = create_engine(address)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        found = [connection.execute(text(one)) for one in words]
        said = [str(one.scalar()) for one in found if one.returns_rows]
    engine.dispose()
    return said


def measure(given: argparse.Namespace) -> dict[str, object]:
    load = os.getloadavg()[0]
    with postgresql() as address, tempfile.TemporaryDirectory() as folder:
        found: dict[str, object] = dict(zip(SETTINGS, ask(address, *(f"SHOW {one}" for one in SETTINGS)), strict=True))
        shared = Location(schema(address, "writers"), folder)
        with Store.open(shared):  # makes the tables
            found |= {f"writers: {n}": committed(shared, n, given.seconds) for n in given.writers}
        found["SQLite, its one writer"] = committed(Location(f"{folder}/one"), 1, given.seconds)
        found["load before"] = round(load, 2)
        if given.episodes:
            many = Location(schema(address, "lists"), folder)
            places = {"PostgreSQL": many, "SQLite": Location(f"{folder}/sqlite")}
            for where in places.values():
                asyncio.run(fill(where, given.episodes))
            ask(address, "VACUUM ANALYZE")
            lists = {name: listed(where, given.episodes) for name, where in places.items()}
            found[f"milliseconds, {given.episodes} episodes"] = lists
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    commit = subprocess.run(("git", "rev-parse", "HEAD"), capture_output=True, text=True, check=False).stdout.strip()
    writers = " ".join(map(str, given.writers))
    result = {
        "command": "python benchmarks/store_writers.py "
        f"--writers {writers} --seconds {given.seconds:g} --episodes {given.episodes}",
        "commit": commit,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        **measure(given),
    }
    body = json.dumps(result, indent=2)
    sys.stdout.write(body + "\n")
    if given.out:
        given.out.write_text(body + "\n")


if __name__ == "__main__":
    main()
