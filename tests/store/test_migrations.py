"""A store that bestofq 0.1.0 wrote (`store_0_1_0.sql`, by its own code) is refused, and read once it is migrated."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from rich.console import Console
from sqlalchemy import text
from store_nouns import PROVENANCE, WON, decision, page, step, task
from test_trees import grown

from bestofq.cli.store_check import migrate_store
from bestofq.core.errors import DataError
from bestofq.store import database
from bestofq.store.location import Location
from bestofq.store.repair import examine, migrate
from bestofq.store.schema import METADATA, VERSION
from bestofq.store.store import Store

OLD = Path(__file__).with_name("store_0_1_0.sql")


@pytest.fixture
def old(tmp_path: Path) -> Location:
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as plain:
        plain.executescript(OLD.read_text("utf-8"))
    return Location(str(tmp_path))


async def test_a_store_of_0_1_0_is_read_after_its_migration(old: Location) -> None:
    with pytest.raises(DataError, match=f"doctor --store {old} --migrate"):
        Store.open(old, read_only=True)
    migrate_store(console := Console(record=True), old)
    assert f"1 → {VERSION}" in console.export_text()
    with Store.open(old) as store:
        [won] = store.episodes()
        assert (won.task, won.verdict, won.final) == (task("t0"), WON, page(2))
        assert [one.decision for one in won.steps] == [decision(), decision()]
        assert won.steps[1] == step(1, last=True)
        assert [one.key.task for one in store.summaries(status="cut")] == ["t1"]
        [older], [newer] = store.summaries(status="interrupted"), store.summaries(status="running")
        assert (older.key, older.steps) == (newer.key, newer.steps)
        assert [one.id for one in await store.take_over("r", "prompting")] == [newer.id]
        await store.append_step(newer.id, step(2))
        await store.begin_run("r", {"epsilon": 0.5}, PROVENANCE)
    found = examine(old)
    assert not any(found.lost.values())
    assert (len(found.kept["steps"]), len(found.kept["vectors"])) == (9, 1)
    assert migrate(old) == (str(VERSION), str(VERSION))


async def test_a_store_of_0_2_0_learns_which_q_function_scored(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("r", {}, PROVENANCE)
        won, running = [await store.begin_episode("r", "a", task(f"t{n}"), 0, PROVENANCE) for n in range(2)]
        for id_ in (won, running):
            await store.append_step(id_, step(0, checkpoint="q-1"))
        await store.finish_episode(won, WON, None)
        await store.trees.save("r", grown("t0").to_tree())
        with store._engine.begin() as connection:
            for table, column in (("episodes", "checkpoint"), ("trees", "owner")):
                connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
            connection.execute(text("UPDATE facts SET value = '3'"))
    with pytest.raises(DataError, match="--migrate"):
        Store.open(where)
    assert migrate(where) == ("3", str(VERSION))
    assert examine(where).intact
    with Store.open(where, read_only=True) as store:
        assert {one.id: one.checkpoint for one in store.summaries(status=None)} == {won: "q-1", running: None}
        assert list(store.trees.all("r")) == [grown("t0").to_tree()]


def test_the_migrated_tables_are_those_of_a_new_store(old: Location) -> None:
    migrate(old)
    engine = database.connect(database.sqlite_url(old.database))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        found = [one for one in compare_metadata(context, METADATA) if isinstance(one, tuple)]
    engine.dispose()
    assert found == []


def test_a_migration_that_fails_leaves_the_store_as_it_was(old: Location) -> None:
    with closing(sqlite3.connect(old.database)) as plain:
        plain.execute("CREATE TABLE shards (of TEXT)")
        plain.commit()
        before = list(plain.iterdump())
        with pytest.raises(DataError, match="shards"):
            migrate(old)
        assert list(plain.iterdump()) == before
