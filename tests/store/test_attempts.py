"""Several processes write one store: each episode is played by one of them, whatever happens to the others."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Barrier

import pytest
from forked import Forked
from sqlalchemy import Connection, event
from store_nouns import PROVENANCE, WON, begin, give_up, step, task

from bestofq.core.errors import DataError, SupersededError
from bestofq.store import attempts, claim
from bestofq.store.database import insert_new
from bestofq.store.location import Location
from bestofq.store.schema import PAGES
from bestofq.store.store import Store


@pytest.fixture
def shared(database: str, tmp_path: Path) -> Location:
    return Location(database, str(tmp_path / "files"))


def on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """All writers so far are those of a machine that was last heard of long ago."""
    monkeypatch.setattr(claim, "_host", lambda: "another")
    monkeypatch.setattr(claim, "LEASE", 0.0)


async def test_what_another_living_process_plays_is_left_to_it(shared: Location) -> None:
    with Store.open(shared) as one, Store.open(shared) as other:
        episode = await begin(one)
        assert await other.take_over("r", "a") == []
        assert await other.interrupt("r", "a") == 0
        with pytest.raises(SupersededError, match="t1"):
            await other.begin_episode("r", "a", task("t1"), 0, PROVENANCE)
        for refused in (other.append_step(episode, step(1)), other.finish_episode(episode, WON, None)):
            with pytest.raises(SupersededError, match=episode):
                await refused
        await one.append_step(episode, step(1))
        await one.finish_episode(episode, WON, None)
        assert len(other.episode(episode).steps) == 2


async def test_a_writer_that_seemed_dead_commits_nothing_more(
    shared: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(shared) as slow:
        left, begun_anew = await begin(slow), await begin(slow, "t2")
        on_another_machine(monkeypatch)
        with Store.open(shared) as other:
            second = await other.begin_episode("r", "a", task("t2"), 0, PROVENANCE)
            assert [one.id for one in await other.take_over("r", "a")] == sorted([left, second])
            for late in (slow.append_step(left, step(1)), slow.append_step(begun_anew, step(1))):
                with pytest.raises(SupersededError):
                    await late
            with pytest.raises(SupersededError, match=left):
                await slow.finish_episode(left, WON, None)
            await other.append_step(left, step(1))
            await other.finish_episode(left, WON, None)
            assert [one.index for one in other.episode(left).steps] == [0, 1]
            [old] = other.summaries(status="interrupted")
            assert (old.id, old.steps) == (begun_anew, 1)


async def test_another_machine_that_was_heard_of_is_left_alone(
    shared: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(shared) as there:
        await begin(there)
        monkeypatch.setattr(claim, "_host", lambda: "another")
        with Store.open(shared) as here:
            assert await here.take_over("r", "a") == []
            assert here.is_written


async def test_a_step_that_meets_a_takeover_waits_for_it_and_is_refused(
    shared: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(shared) as slow:
        episode = await begin(slow)
        on_another_machine(monkeypatch)
        with Store.open(shared) as other:
            with other._engine.begin() as connection:
                attempts.take_over(connection, "r", "a", other.writer, None)
                late = asyncio.create_task(slow.append_step(episode, step(1)))
                await asyncio.wait([late], timeout=0.3)
                assert not late.done()
            with pytest.raises(SupersededError, match=episode):
                await late
            assert len(other.episode(episode).steps) == 1


async def test_a_step_is_one_statement_on_a_connection_that_is_kept(shared: Location) -> None:
    with Store.open(shared) as store:
        episode, seen = await begin(store), list[str]()
        event.listen(store._engine, "before_cursor_execute", lambda _c, _d, words, *_: seen.append(words.split()[0]))
        event.listen(store._engine, "checkout", lambda *_: seen.append("checkout"))
        await store.append_step(episode, step(1))
        assert seen == ["WITH"]
        await store.finish_episode(episode, WON, None)
        assert (seen[1], seen[-1], "checkout" in seen) == ("BEGIN", "COMMIT", False)


async def test_a_writer_learns_from_its_heartbeat_that_it_was_given_up(
    shared: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "BEAT", 0.01)
    with Store.open(shared) as slow:
        await begin(slow)
        give_up(slow)
        await asyncio.to_thread(slow._writer._claim.lost.wait, 10)  # type: ignore[union-attr]
        with pytest.raises(DataError, match="taken over"):
            await slow.begin_run("r", {}, PROVENANCE)


def play_on(shared: Location, folder: Path) -> None:
    async def play() -> None:
        with Store.open(shared) as store:
            (folder / "episode").write_text(await begin(store, steps=3))
            await asyncio.sleep(60)

    asyncio.run(play())


async def test_what_a_killed_process_of_this_machine_played_is_free_at_once(shared: Location, tmp_path: Path) -> None:
    process = Forked(tmp_path / "log", play_on, shared, tmp_path)
    while not (tmp_path / "episode").exists() or not (episode := (tmp_path / "episode").read_text()):
        assert process.runs, process.said
        await asyncio.sleep(0.005)
    with Store.open(shared) as store:
        assert await store.take_over("r", "a") == []
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        [taken] = await store.take_over("r", "a")
        assert (taken.id, taken.steps) == (episode, 3)
        await store.finish_episode(episode, WON, None)


def test_writers_that_wait_for_each_other_both_commit(shared: Location) -> None:
    pages = [{"key": bytes([n]) * 16, "body": b"page"} for n in (1, 2)]
    both = Barrier(2)

    def keep(first: dict[str, bytes], second: dict[str, bytes]) -> Callable[[Connection], int]:
        tries: list[int] = []

        def job(connection: Connection) -> int:
            tries.append(1)
            insert_new(connection, PAGES, [first])
            if len(tries) == 1:
                both.wait(10)
            insert_new(connection, PAGES, [second])
            return len(tries)

        return job

    with Store.open(shared) as one, Store.open(shared) as other:
        jobs = [one._writer.submit(keep(*pages)), other._writer.submit(keep(*reversed(pages)))]
        assert sorted(job.result() for job in jobs) == [1, 2]
