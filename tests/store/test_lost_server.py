"""PostgreSQL goes away while it is written, and comes back."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from postgres import Server, a_server, programs
from sqlalchemy import Connection, text
from store_nouns import PROVENANCE, WON, begin, give_up, page, step, task

from bestofq.core.errors import SetupError
from bestofq.store import claim, database
from bestofq.store.database import read
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.store.writer import Writer


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server of these tests' own."""
    if programs() is None:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    with a_server() as server:
        yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PAUSE", 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_run_waits_for_a_server_that_is_restarted_and_loses_no_step(
    own: Server, tmp_path: Path, mode: str
) -> None:
    async def play(store: Store, name: str) -> str:
        episode = await store.begin_episode("r", mode, task(name), 0, PROVENANCE)
        for index in range(40):
            await store.append_step(episode, step(index))
            await asyncio.sleep(0.01)
        await store.finish_episode(episode, WON, page(1))
        return episode

    with Store.open(Location(own.address, str(tmp_path))) as store:
        await store.begin_run("r", {}, PROVENANCE)
        playing = [asyncio.create_task(play(store, f"t{n}")) for n in range(3)]
        await asyncio.sleep(0.1)
        await asyncio.to_thread(own.stop, mode)
        await asyncio.to_thread(own.start)
        ids = await asyncio.gather(*playing, play(store, "later"))
        assert sorted(ids) == sorted(one.id for one in store.summaries(agent=mode))
        assert all([one.index for one in store.episode(id_).steps] == [*range(40)] for id_ in ids)


@pytest.mark.slow
async def test_a_server_that_stays_away_is_one_sentence_and_what_was_played_goes_on_later(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "AWAY", 1.0)
    shared = Location(own.address, str(tmp_path))
    with Store.open(shared) as store:
        episode = await begin(store)
        own.stop("fast")
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(SetupError, match="run the same command again"):
                await store.append_step(episode, step(1))
        assert time.monotonic() - began < 2 * database.AWAY
        with pytest.raises(SetupError, match="start the server"):
            Store.open(shared)
        with pytest.raises(SetupError, match="start the server"):
            store.runs()
        monkeypatch.setattr(claim, "_host", lambda: "another")
        own.start()
        with Store.open(shared) as other:  # whose server has not been up long enough to call a writer dead
            with other._engine.begin() as connection:
                connection.execute(text("UPDATE writers SET beat = beat - 1000"))
            assert await other.take_over("r", "a") == []
        await store.append_step(episode, step(1))
        give_up(store)
    with Store.open(shared) as other:
        [left] = await other.take_over("r", "a")
        assert (left.id, left.steps) == (episode, 2)


async def test_what_was_committed_though_the_answer_was_lost_is_committed_once(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Writer.submit

    def lost(self: Writer, run: Callable[[Connection], Any], *, one_statement: bool = False) -> Future[Any]:
        """Carried out; then the connection is ended by the server before the answer is there, and all is done again."""
        tries: list[int] = []

        def job(connection: Connection) -> Any:
            found = run(connection)
            if not tries:
                tries.append(1)
                if not one_statement:
                    connection.exec_driver_sql("COMMIT")
                connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
            return found

        return submit(self, job, one_statement=one_statement)

    monkeypatch.setattr(Writer, "submit", lost)
    with Store.open(Location(database, str(tmp_path))) as store:
        episode = await begin(store, steps=2)
        await store.finish_episode(episode, WON, page(2))
        [found] = store.episodes()
        assert (found.id, found.verdict, found.final) == (episode, WON, page(2))
        assert found.steps == (step(0), step(1))
        assert store.summaries(status="interrupted") == []


def test_what_is_read_when_the_connection_is_lost_is_read_again(database: str, tmp_path: Path) -> None:
    with Store.open(Location(database, str(tmp_path))) as store:
        tries: list[int] = []

        def count(connection: Connection) -> int:
            tries.append(1)
            if len(tries) < 3:
                connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
            return int(connection.scalar(text("SELECT count(*) FROM episodes")) or 0)

        assert read(store._engine, count) == 0
        with pytest.raises(SetupError, match="start the server"):
            read(store._engine, lambda c: c.execute(text("SELECT pg_terminate_backend(pg_backend_pid())")))
