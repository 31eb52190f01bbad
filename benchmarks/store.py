"""What the store takes to commit steps, and to read episodes back.

    python benchmarks/store.py --out benchmarks/results/store.json

The store is synthetic: episodes of four steps on pages of fifteen links (tests/store/store_nouns.py), each page seen in
ten episodes. Steps are committed by 16 tasks at once, as `collect` does. Each number is the processor's time,
the least of some repeats.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bestofq.core.decision import Episode, Provenance, Verdict
from bestofq.core.embedding import EmbedSpec
from bestofq.store.store import Store

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "store"))
from store_nouns import page, step, task

STEPS, AT_ONCE, COMMITTED, VECTORS, REPEATS = 4, 16, 4_000, 20_000, 5
SOURCE = Provenance(version="benchmark")
SPEC = EmbedSpec(model="m", revision="1", dim=384)


def episode(number: int) -> Episode:
    some = tuple(step(index, number // 10 * STEPS + index, last=index == STEPS - 1) for index in range(STEPS))
    return Episode(
        id=f"{number:016x}",
        run="r",
        agent="a",
        task=task(f"t{number}"),
        steps=some,
        final=page(number // 10 * STEPS),
        verdict=Verdict(reward=1.0, outcome="success"),
        provenance=SOURCE,
    )


async def filled(folder: Path, episodes: int) -> None:
    with Store.open(folder) as store:
        await store.begin_run("r", {}, SOURCE)
        for start in range(0, episodes, 250):
            await asyncio.gather(*(store.add_episode(episode(n), 0) for n in range(start, start + 250)))
        vectors = np.random.default_rng(0).normal(size=(VECTORS, SPEC.dim)).astype(np.float32)
        store.vectors(SPEC).put_many({f"{n:032x}": vector for n, vector in enumerate(vectors)})


async def committed(folder: Path) -> float:
    """Seconds that `COMMITTED` steps take, each awaited before its episode's next."""
    some = [step(index) for index in range(COMMITTED // AT_ONCE)]
    with Store.open(folder) as store:
        await store.begin_run("r", {}, SOURCE)
        ids = [await store.begin_episode("r", "a", task(f"t{n}"), 0, SOURCE) for n in range(AT_ONCE)]

        async def one(name: str) -> None:
            for each in some:
                await store.append_step(name, each)

        began = time.process_time()
        await asyncio.gather(*map(one, ids))
        return time.process_time() - began


def least(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def measure(episodes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        asyncio.run(filled(root / "read", episodes))
        commit = min(asyncio.run(committed(root / f"write-{number}")) for number in range(REPEATS))

        def reading(read: Callable[[Store], object]) -> float:
            with Store.open(root / "read", read_only=True) as store:
                return least(lambda: read(store))

        keys = [f"{n:032x}" for n in range(VECTORS)]
        return {
            "microseconds a committed step": 1e6 * commit / COMMITTED,
            "microseconds a summary": 1e6 * reading(lambda store: store.summaries()) / episodes,
            "microseconds an episode": 1e6 * reading(lambda store: sum(1 for _ in store.episodes())) / episodes,
            "microseconds a vector": 1e6 * reading(lambda store: store.vectors(SPEC).get_many(keys)) / VECTORS,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {name: round(value, 4) for name, value in measure(given.episodes).items()}
    commit = subprocess.run(("git", "rev-parse", "HEAD"), capture_output=True, text=True, check=False).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    body = json.dumps(
        {
            "command": f"python benchmarks/store.py --episodes {given.episodes}",
            "commit": commit,
            "machine": machine,
            **found,
        },
        indent=2,
    )
    sys.stdout.write(body + "\n")
    if given.out:
        given.out.write_text(body + "\n")


if __name__ == "__main__":
    main()
