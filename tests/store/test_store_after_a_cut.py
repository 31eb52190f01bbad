"""A store after a power cut: pictures are on disk before the rows that name them; a log cut short is a shorter log."""

import asyncio
import random
from itertools import count
from pathlib import Path

import pytest
from power import Disk, watched
from store_nouns import PROVENANCE, WON, picture, step, task

from bestofq.store.store import Store

STEPS = 4


async def write(store: Store) -> None:
    await store.begin_run("r", {}, PROVENANCE)
    for number in range(2):
        id_ = await store.begin_episode("r", "a", task(f"t{number}"), 0, PROVENANCE)
        for index in range(STEPS):
            shot = picture(f"{number} {index}".encode())
            await store.append_step(id_, step(index, screenshot=shot, last=index == STEPS - 1))
        await store.finish_episode(id_, WON, None)


def test_a_picture_is_on_disk_before_its_step_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, moments = tmp_path / "store", count()
    with Store.open(folder) as store:
        disk = Disk(folder)

        def moment() -> None:
            """All that was committed is there, the worst case for what it names."""
            shots = [s.observation.screenshot for e in store.episodes(status=None) for s in e.steps]
            for left in disk.after_a_cut(tmp_path / str(next(moments))):
                for shot in shots:
                    assert shot is not None
                    path = store.screenshots.path(shot)
                    assert (left / path).read_bytes() == (folder / path).read_bytes() != b""

        with watched(disk, monkeypatch, moment):
            asyncio.run(write(store))
            moment()
    assert next(moments) > 4 * 2 * STEPS


def test_what_is_left_of_a_log_holds_whole_steps_in_their_order(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        asyncio.run(write(store))
        database, log = ((tmp_path / "store" / f"store.sqlite{end}").read_bytes() for end in ("", "-wal"))
    found = set()
    for number, size in enumerate(random.Random(0).sample(range(len(log)), 30)):
        copy = tmp_path / str(number)
        copy.mkdir()
        (copy / "store.sqlite").write_bytes(database)
        (copy / "store.sqlite-wal").write_bytes(log[:size])
        with Store.open(copy) as store:
            episodes = list(store.episodes(status=None))
        for episode in episodes:
            assert [one.index for one in episode.steps] == list(range(len(episode.steps)))
        found.add(sum(len(episode.steps) for episode in episodes))
    assert len(found) > 4
