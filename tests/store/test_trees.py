"""Search trees in the store."""

import asyncio
from pathlib import Path

import pytest
from store_nouns import give_up

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Provenance
from bestofq.core.errors import DataError, SupersededError
from bestofq.core.observation import Observation, Task
from bestofq.search.tree import MutableTree
from bestofq.store.location import Location
from bestofq.store.repair import examine
from bestofq.store.store import Store


def grown(task: str) -> MutableTree:
    asked = Task(id=task, suite="s", goal="g", start_url="u")
    tree = MutableTree(asked, Observation(url="u", title="t", text="x", elements=()))
    candidate = Candidate(action=Click(mark=1), label="click", log_prob=-2.5, reply="r", reply_ids=(5, 7, 1))
    tree.backup([0, tree.child(0, candidate)], 1.0)
    return tree


async def test_a_tree_is_kept_as_it_grows_and_read_back_as_it_was(where: Location) -> None:
    with Store.open(where) as store:
        await store.begin_run("search", {}, Provenance(version="1"))
        tree = grown("b")
        await store.trees.save("search", tree.to_tree())
        tree.backup([0, 1], 0.0)
        await store.trees.save("search", tree.to_tree())
        await store.trees.save("search", grown("a").to_tree())
    with Store.open(where, read_only=True) as store:
        assert store.trees.load("search", "s", "b") == tree.to_tree()
        assert [t.task.id for t in store.trees.all("search")] == ["a", "b"]
        assert store.trees.load("search", "s", "c") is None
        assert list(store.trees.all("another")) == []
        with pytest.raises(DataError, match="read-only"):
            await store.trees.save("search", tree.to_tree())


async def test_a_tree_is_grown_by_one_process_at_a_time(database: str, tmp_path: Path) -> None:
    shared, tree = Location(database, str(tmp_path)), grown("b")
    with Store.open(shared) as one, Store.open(shared) as other:
        await one.begin_run("search", {}, Provenance(version="1"))
        async with one.trees.grow_tree("search", tree.task) as kept, other.trees.grow_tree("search", tree.task) as also:
            assert kept is also is None
            await one.trees.save("search", tree.to_tree())
            with pytest.raises(SupersededError, match="b"):
                await other.trees.save("search", grown("b").to_tree())
            with pytest.raises(SupersededError, match="b"):
                async with other.trees.grow_tree("search", tree.task):
                    pass
            tree.backup([0, 1], 0.0)
            await one.trees.save("search", tree.to_tree())
        async with other.trees.grow_tree("search", tree.task) as kept:
            assert kept == tree.to_tree()
            with pytest.raises(SupersededError):
                await one.trees.save("search", grown("b").to_tree())


async def test_two_processes_replace_one_note_at_the_same_time(database: str, tmp_path: Path) -> None:
    shared = Location(database, str(tmp_path))
    with Store.open(shared) as one, Store.open(shared) as other:
        for n in range(40):
            await asyncio.gather(*(store.keep_note("replies", f"{n}") for store in (one, other)))
            assert one.note("replies") == f"{n}"
            await asyncio.gather(*(store.keep_note("replies", None) for store in (one, other)))
            assert other.note("replies") is None


async def test_a_tree_that_a_process_left_is_gone_on_with_and_that_process_saves_no_more(where: Location) -> None:
    tree = grown("b")
    with Store.open(where) as slow:
        await slow.begin_run("search", {}, Provenance(version="1"))
        await slow.trees.save("search", tree.to_tree())
        give_up(slow)
        if where.is_folder:
            slow.close()
        with Store.open(where) as other:
            async with other.trees.grow_tree("search", tree.task) as kept:
                assert kept == tree.to_tree()
                if not where.is_folder:
                    with pytest.raises(SupersededError):
                        await slow.trees.save("search", grown("b").to_tree())
                tree.backup([0, 1], 0.0)
                await other.trees.save("search", tree.to_tree())
    with Store.open(where, read_only=True) as store:
        assert list(store.trees.all("search")) == [tree.to_tree()]
    assert examine(where).intact
