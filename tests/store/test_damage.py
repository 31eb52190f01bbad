"""One flipped bit: what is read is what was written, or one sentence that names the store; never other episodes."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from store_nouns import PROVENANCE, WON, page, picture, step, task

from bestofq.core.decision import Verdict
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError
from bestofq.store.store import Store

FLIPS = 120
SPEC = EmbedSpec(model="m", revision="1", dim=8)
KEYS = tuple(f"{n:032x}" for n in range(20))


async def fill(folder: Path, episodes: int = 12) -> None:
    with Store.open(folder) as store:
        for run in ("a", "b"):
            await store.begin_run(run, {"seed": 1}, PROVENANCE)
        for number in range(episodes):
            id_ = await store.begin_episode("ab"[number % 2], "prompting", task(f"t{number}"), 0, PROVENANCE)
            for index in range(3):
                shot = picture(f"{number} {index}".encode()) if index == 0 else None
                await store.append_step(id_, step(index, 3 * number + index, screenshot=shot, last=index == 2))
            await store.finish_episode(id_, WON, page(number))
            await store.add_verdict(id_, Verdict(reward=0.0, outcome="failure", judge="j"), adopt=False)
        vectors = np.random.default_rng(0).normal(size=(len(KEYS), SPEC.dim)).astype(np.float32)
        store.vectors(SPEC).put_many(dict(zip(KEYS, vectors, strict=True)))


def everything(folder: Path) -> tuple[object, ...]:
    with Store.open(folder, read_only=True) as store:
        vectors = store.vectors(SPEC).get_many(KEYS)
        by_run = [store.summaries(run=run) for run in ("a", "b")]
        return (
            store.runs(),
            store.summaries(),
            by_run,
            list(store.episodes()),
            [list(store.episodes(run=run)) for run in ("a", "b")],
            store.verdicts(),
            {key: vector.tolist() for key, vector in vectors.items()},
        )


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def outcomes(folder: Path, bits: Sequence[int]) -> Counter[str]:
    """What comes of reading a store with one of these bits flipped."""
    file, found = folder / "store.sqlite", Counter[str]()
    content, before = file.read_bytes(), everything(folder)
    for bit in bits:
        file.write_bytes(flipped(content, bit))
        try:
            found["same" if everything(folder) == before else f"other: bit {bit}"] += 1
        except DataError as error:
            found["refused" if str(folder) in str(error) else f"unnamed: bit {bit}"] += 1
        except Exception as error:
            found[f"{type(error).__name__}: bit {bit}"] += 1
    file.write_bytes(content)
    return found


def test_a_flipped_bit_of_a_store_gives_the_same_episodes_or_a_sentence(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    bits = random.Random(0).sample(range(8 * (tmp_path / "store.sqlite").stat().st_size), FLIPS)
    found = outcomes(tmp_path, bits)
    assert set(found) == {"same", "refused"}, found
