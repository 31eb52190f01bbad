import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from forked import Forked
from sqlalchemy import update
from store_nouns import PROVENANCE, begin, decision, picture, step, task

from bestofq.core.decision import Decision
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import BestOfQError, DataError
from bestofq.store import database, schema
from bestofq.store.codec import pack, unpack
from bestofq.store.store import Store

SPEC = EmbedSpec(model="m", revision="1", dim=2)
UNSCORED = (  # `store_nouns.decision()` as it was packed then
    b"eH3SrwYBI+hHI6Ic4Z1aAkqzyE7xLFHILFYAhqYeiqMKchLzoCFUAWInQqwDCYDiprQYi9uNTBGOf9SwDOxsdHfijItEhRig5pQYJYVs"
    b"mCOJiZvg1MSi5AzcgUuUP7A51JioAPUvyYCkfkpsB6V3RDYwBGYBcx1QcGLmAxNEPjAkP39aGKDlUGNcWdQUmEUBX9XJew=="
)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    engine = database.connect(database.sqlite_url(tmp_path / "store.sqlite"))
    with engine.begin() as connection:
        connection.execute(update(schema.FACTS).values(value="99"))
    engine.dispose()
    for read_only in (False, True):
        with pytest.raises(DataError, match="has store schema 99, this bestofq reads schema"):
            Store.open(tmp_path, read_only=read_only)


def test_a_decision_from_before_scorers_were_recorded_reads_and_is_written_the_same() -> None:
    assert pack(decision()) == b64decode(UNSCORED)
    assert unpack(Decision, b64decode(UNSCORED)) == decision()


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0 and then nothing of it" * 99])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "store.sqlite"
    file.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(DataError, match=r"store\.sqlite .* \(file is not a database\)"):
            Store.open(tmp_path, read_only=read_only)
    assert file.read_bytes() == content


def open_at(moment: float, folder: Path) -> None:
    time.sleep(max(0.0, moment - time.time()))
    try:
        Store.open(folder).close()
    except DataError as error:
        if "is being written by process" not in str(error):
            raise


def test_of_processes_that_make_a_store_at_once_one_makes_it_and_the_others_wait(tmp_path: Path) -> None:
    for number in range(3):
        folder, soon = tmp_path / f"store{number}", time.time() + 0.2
        processes = [Forked(tmp_path / "log", open_at, soon, folder) for _ in range(4)]
        assert [process.wait() for process in processes] == [0] * 4, processes[0].said


async def test_a_reader_needs_a_store_and_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no bestofq store"):
        Store.open(tmp_path / "nothing", read_only=True)
    assert not (tmp_path / "nothing").exists()
    Store.open(tmp_path).close()
    with Store.open(tmp_path, read_only=True) as store, pytest.raises(DataError, match="read-only"):
        await store.begin_run("r", {}, PROVENANCE)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user of this machine can reach, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        (Path(folder) / "a store?").chmod(0o755)


@pytest.mark.slow
def test_a_store_that_cannot_be_written_can_be_read(open_folder: Path) -> None:
    """By another user, in a process of its own: nothing binds root."""
    folder = open_folder / "a store?"
    code = (
        "import os, sqlite3, sys, sqlalchemy.dialects.sqlite.pysqlite; from bestofq.store.store import Store\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "with Store.open(sys.argv[1], read_only=True) as store: print([run.name for run in store.runs()])"
    )

    def read() -> str:
        command = [sys.executable, "-c", code, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.splitlines()[-1]

    with Store.open(folder) as store:
        asyncio.run(store.begin_run("r", {}, PROVENANCE))
        folder.chmod(0o555)
        assert read() == "['r']"
        folder.chmod(0o755)
    folder.chmod(0o555)
    assert read() == "['r']"
    (folder / "store.sqlite").chmod(0)
    assert "cannot be read (unable to open database file): copy its folder" in read()


@pytest.mark.parametrize("gone", ["deleted", "moved", "replaced"])
async def test_a_store_that_is_gone_takes_no_more_steps(tmp_path: Path, gone: str) -> None:
    folder, held = tmp_path / "store", picture(b"a picture")
    store = Store.open(folder)
    episode = await begin(store)
    folder.rename(tmp_path / "elsewhere")
    if gone == "deleted":
        shutil.rmtree(tmp_path / "elsewhere")
    elif gone == "replaced":
        Store.open(folder).close()
    with pytest.raises(DataError, match="was deleted or moved"):
        await store.append_step(episode, step(1, screenshot=held))
    with pytest.raises(DataError, match="was deleted or moved"):
        store.close()
    assert folder.exists() == (gone == "replaced")


async def test_a_url_takes_a_folder_for_its_pictures(tmp_path: Path) -> None:
    url = f"sqlite+pysqlite:///{tmp_path}/other.sqlite"
    with pytest.raises(DataError, match="give --files"):
        Store.open(url)
    with Store.open(url, files=tmp_path / "files") as store:
        episode = await begin(store, steps=0)
        await store.append_step(episode, step(0, screenshot=picture()))
        store.vectors(SPEC).put_many({"k": np.array([1, 2], dtype=np.float32)})
    with Store.open(url, files=tmp_path / "files") as store:
        [read] = store.episode(episode).steps
        assert store.screenshots.load(read.observation.screenshot) == picture()
        assert store.vectors(SPEC).get_many(["k", "other"])["k"].tolist() == [1, 2]


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.close()
    store.close()
    with pytest.raises(BestOfQError, match="the store is closed"):
        await store.begin_episode("r", "a", task(), 0, PROVENANCE)
