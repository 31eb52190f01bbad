import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from report_nouns import PROVENANCE, record, task

from bestofq.store.store import Store


@pytest.fixture(scope="session")
def two_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Prompting: task a always, b never. Best-of-Q: both, but b not in the second repeat; c cut and never done."""

    async def fill(store: Store) -> None:
        await store.begin_run("eval", {"n": 3}, PROVENANCE)
        await record(store, "best|of[q]", task("b"), 0, 1, "infra_error")  # cut, done since
        for repeat in (0, 1):
            await record(store, "prompting", task("a"), repeat, 4)
            await record(store, "prompting", task("b"), repeat, 6, "failure")
            await record(store, "best|of[q]", task("a"), repeat, 2)
            await record(store, "best|of[q]", task("b"), repeat, 3, "success" if repeat == 0 else "blocked")
        for _ in range(2):
            await record(store, "best|of[q]", task("c"), 0, 1, "infra_error")

    with Store.open(tmp_path_factory.mktemp("two") / "store") as store:
        asyncio.run(fill(store))
        yield store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """One whose run `eval` has begun."""
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, PROVENANCE)
        yield store
