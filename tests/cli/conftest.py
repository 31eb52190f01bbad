"""What the tests of commands share: commands that are loaded already, words of settings, a store with one episode."""

import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from bestofq.core.decision import Provenance, Verdict
from bestofq.core.observation import Task
from bestofq.store.store import Store

for module in (
    "openai",
    *(f"bestofq.cli.{name}" for name in ("collect", "improve", "run", "search", "serve", "train")),
):
    import_module(module)  # before `forked` forks: its processes then load nothing


@pytest.fixture(scope="session")
def one_episode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one episode without steps."""

    async def fill(opened: Store) -> None:
        made = Provenance(version="0.0-test")
        await opened.begin_run("eval", {}, made)
        task = Task(id="a", suite="s", goal="g", start_url="http://s.example/")
        episode = await opened.begin_episode("eval", "prompting", task, 0, made)
        await opened.finish_episode(episode, Verdict(reward=1.0, outcome="success"), None)

    folder = tmp_path_factory.mktemp("one")
    with Store.open(folder) as opened:
        asyncio.run(fill(opened))
    return folder
