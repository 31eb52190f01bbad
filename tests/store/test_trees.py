"""Search trees in the store."""

import pytest

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Provenance
from bestofq.core.errors import DataError
from bestofq.core.observation import Observation, Task
from bestofq.search.tree import MutableTree
from bestofq.store.location import Location
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
