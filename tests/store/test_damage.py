"""One flipped bit: what is read is what was written, or one sentence that names the store; never other episodes."""

import asyncio
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from flips import flip, flips
from sqlalchemy import Table
from store_nouns import PROVENANCE, WON, page, picture, step, task
from test_trees import grown

from bestofq.cli.store_check import check_store
from bestofq.core.decision import Verdict
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DamageError, DataError
from bestofq.store.codec import pack
from bestofq.store.location import Location
from bestofq.store.repair import examine, repair, unwritten
from bestofq.store.schema import EPISODES, PAGES, RUNS, STEPS, TREES, VECTORS, VERDICTS
from bestofq.store.store import Store

FLIPS, REPAIRED = 120, 12
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
            if number % 6 == 0:
                await store.trees.save("a", grown(f"t{number}").to_tree())
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
            list(store.trees.all("a")),
        )


def repaired(folder: Path, before: tuple[object, ...]) -> None:
    """Repair the store: what can be read then was there before."""
    try:
        condition = examine(folder)
    except DataError:  # the file's very head
        return
    assert not condition.intact
    repair(folder, condition).unlink()
    assert examine(folder).intact
    for part, others in zip(everything(folder)[3:6:2], before[3:6:2], strict=True):
        assert all(one in others for one in part), "something else"  # type: ignore[attr-defined, operator]


def outcomes(folder: Path, bits: Sequence[int]) -> Counter[str]:
    """What comes of reading a store with one of these bits flipped; the first that are refused are repaired."""
    file, found = folder / "store.sqlite", Counter[str]()
    content, before = file.read_bytes(), everything(folder)
    for bit in bits:
        file.write_bytes(flip(content, bit))
        try:
            found["same" if everything(folder) == before else f"other: bit {bit}"] += 1
        except DataError as error:
            if found["refused"] < REPAIRED:
                repaired(folder, before)
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


@pytest.mark.parametrize("use", [everything, Store.open])
def test_a_damaged_word_in_the_definition_of_a_table_is_a_sentence(
    tmp_path: Path, use: Callable[[Path], object]
) -> None:
    asyncio.run(fill(tmp_path, episodes=1))
    content = bytearray((tmp_path / "store.sqlite").read_bytes())
    content[content.index(b"NOT NULL") + len("NOT N")] |= 0x80  # no UTF-8 in what SQLite says of it
    (tmp_path / "store.sqlite").write_bytes(content)
    with pytest.raises(DataError, match=f"{tmp_path}"):
        use(tmp_path)
    assert examine(tmp_path).kept["episodes"]  # the other tables


def test_a_damaged_definition_of_an_index_is_found_and_repaired(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, episodes=1))
    before, file = everything(tmp_path), tmp_path / "store.sqlite"
    file.write_bytes(file.read_bytes().replace(b"CREATE INDEX", b"CREATE INDEY", 1))
    with pytest.raises(DataError, match=f"{tmp_path}"):
        everything(tmp_path)
    assert check_store(Location.of(tmp_path), mend=True) == 0
    assert everything(tmp_path) == before


def test_of_a_file_that_was_cut_what_is_left_is_recovered(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    file = tmp_path / "store.sqlite"
    os.truncate(file, file.stat().st_size - 4096)
    assert check_store(Location.of(tmp_path), mend=True) == 0
    assert 0 < len(everything(tmp_path)[1]) < 12  # type: ignore[arg-type]
    os.truncate(file, 4096)
    with pytest.raises(DataError, match=f"nothing of {tmp_path} can be recovered .* put back a copy"):
        check_store(Location.of(tmp_path), mend=True)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (RUNS, "config", "{}"),
        (EPISODES, "verdict", '{"reward":0.5,"outcome":"success"}'),
        (EPISODES, "task_key", bytes(16)),
        (STEPS, "reward", 0.5),
        (STEPS, "page_key", bytes(16)),
        (STEPS, "number", 7),
        (PAGES, "body", pack(page(99))),
        (TREES, "rollouts", 99),
        (VERDICTS, "verdict", '{"reward":1.0,"outcome":"success","judge":"j"}'),
        (VECTORS, "body", bytes(4 * SPEC.dim)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_other_values_that_would_read_well_are_refused_and_said_by_the_doctor(
    tmp_path: Path, table: Table, column: str, value: object
) -> None:
    asyncio.run(fill(tmp_path, episodes=2))
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as plain, plain:
        (first,) = plain.execute(f"SELECT min(rowid) FROM {table.name}").fetchone()
        plain.execute(f"UPDATE {table.name} SET {column} = ? WHERE rowid = ?", (value, first))
    with pytest.raises(DamageError, match=f"doctor --store {tmp_path}"):
        everything(tmp_path)
    assert check_store(tmp_path, mend=False) == 1
    assert check_store(tmp_path, mend=True) == 0
    assert check_store(tmp_path, mend=False) == 0
    everything(tmp_path)


def test_a_damaged_picture_is_never_shown_and_the_texts_are_read_on(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, episodes=3))
    [shot, *_] = sorted((tmp_path / "screenshots").glob("*/*.jpg"))
    content = shot.read_bytes()
    for damaged_content in flips(content, 10):
        shot.write_bytes(damaged_content)
        with Store.open(tmp_path, read_only=True) as store:
            with pytest.raises(DamageError, match=shot.name):
                store.screenshots.find_picture(shot.name)
            seen = [step.observation.screenshot for episode in store.episodes() for step in episode.steps]
            damaged = next(one for one in seen if one is not None and one.sha256 == shot.stem)
            with pytest.raises(DamageError, match=shot.name):
                store.screenshots.load(damaged)
    shot.write_bytes(b"")
    assert check_store(tmp_path, mend=True) == 0
    assert shot.with_name(f"{shot.name}.damaged").exists()


def test_what_is_committed_while_a_store_is_compared_is_not_left_out(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, episodes=2))
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as plain, plain:
        plain.execute("UPDATE steps SET reward = 0.5 WHERE rowid = 1")
    with unwritten(tmp_path) as check:
        condition = examine(tmp_path)
        check()
        with Store.open(tmp_path) as store:
            with pytest.raises(DataError, match="is being written"):
                check()
            with pytest.raises(DataError, match="is being written"):
                check_store(Location.of(tmp_path), mend=True)
            asyncio.run(store.begin_episode("a", "prompting", task("late"), 0, PROVENANCE))
        with pytest.raises(DataError, match="was written while it was compared: run the command again"):
            repair(tmp_path, condition, check)
    assert check_store(Location.of(tmp_path), mend=True) == 0
    with Store.open(tmp_path, read_only=True) as store:
        assert [one.task for one in store.summaries(status=None)] == ["late", "t1"]


def test_the_doctor_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="TYPO"):
        check_store(tmp_path / "TYPO", mend=True)
    assert not list(tmp_path.iterdir())
