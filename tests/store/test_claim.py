"""One process writes a store: the database says so, and nothing else in its folder."""

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest
from forked import Forked
from sqlalchemy import delete, insert
from store_nouns import PROVENANCE, begin, step, task

from bestofq.core.errors import DataError, SetupError
from bestofq.store import database
from bestofq.store.schema import WRITERS
from bestofq.store.store import Store


def hold(folder: Path) -> None:
    with Store.open(folder):
        (folder / "held").touch()
        time.sleep(60)


def holding(folder: Path) -> Forked:
    process = Forked(folder.parent / "log", hold, folder)
    while not (folder / "held").exists():
        assert process.runs, process.said
        time.sleep(0.005)
    return process


def claim_for_another(folder: Path, process: str) -> None:
    """Replace all claims by one of a process that is described so."""
    engine = database.connect(database.sqlite_url(folder / "store.sqlite"))
    with engine.begin() as connection:
        connection.execute(delete(WRITERS))
        connection.execute(insert(WRITERS).values(token="other", process=process, beat=0.0))
    engine.dispose()


def test_a_second_writer_is_kept_out_whatever_is_deleted_and_let_in_after_kill_9(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    process = holding(folder)
    for file in folder.iterdir():
        if not file.name.startswith("store.sqlite"):
            file.unlink()
    with pytest.raises(DataError, match=str(process.pid)):
        Store.open(folder)
    with Store.open(folder, read_only=True) as reading:
        assert reading.is_written
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with Store.open(folder, read_only=True) as reading:
        assert not reading.is_written
    Store.open(folder).close()


def test_the_same_process_writes_once_at_a_time(tmp_path: Path) -> None:
    with Store.open(tmp_path), pytest.raises(DataError, match=str(os.getpid())):
        Store.open(tmp_path)
    Store.open(tmp_path).close()


def test_a_copy_of_a_store_that_is_written_is_another_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store"):
        (tmp_path / "copy").mkdir()
        for file in (tmp_path / "store").glob("store.sqlite*"):
            (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
        Store.open(tmp_path / "copy").close()


async def test_a_writer_of_which_another_machine_took_over_commits_nothing_more(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        id_ = await begin(store, steps=0)
        claim_for_another(tmp_path, "another - 1 1")
        with pytest.raises(DataError, match="taken over"):
            await store.append_step(id_, step(0))
    with Store.open(tmp_path) as store:  # nothing is known of the other machine: it is taken over in turn
        assert store.episode(id_).steps == ()


async def test_a_lock_that_another_command_holds_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        await store.begin_run("r", {}, PROVENANCE)
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        ending = Timer(0.3, lambda: other.execute("ROLLBACK"))
        ending.start()
        id_ = await store.begin_episode("r", "a", task(), 0, PROVENANCE)
        assert store.episode(id_).steps == ()
        ending.join()
        other.close()


@pytest.mark.parametrize("value", ["", "no claim", "a b c d e f g", "a b ² d"])
def test_a_damaged_claim_keeps_nobody_out(tmp_path: Path, value: str) -> None:
    Store.open(tmp_path).close()
    claim_for_another(tmp_path, value)
    with Store.open(tmp_path, read_only=True) as store:
        assert not store.is_written
    Store.open(tmp_path).close()


async def test_all_that_waits_for_a_lock_in_vain_learns_of_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_MS", 300)
    with Store.open(tmp_path) as store:
        await store.begin_run("a", {}, PROVENANCE)
        with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            jobs = [store.begin_episode("a", "first", task(), number, PROVENANCE) for number in range(20)]
            said = await asyncio.gather(*jobs, return_exceptions=True)
        assert {type(one) for one in said} == {SetupError}
        assert time.monotonic() - began < 20 * 0.3 / 2  # not one after the other
