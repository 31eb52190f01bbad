"""A viewer over a small store, and a real Chromium to look at it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from looking import Look, Looking
from playwright.async_api import Browser
from tiny_shop import PROVENANCE, play, shop_agent, shop_task, shop_tree

from bestofq.envs.serving import serve_app
from bestofq.store.store import Store
from bestofq.viewer.app import viewer_app
from bestofq.viewer.pages import ASSETS

script, kind = ASSETS["viewer.js"]
ASSETS["viewer.js"] = script.replace("EVERY = 1000", "EVERY = 100"), kind  # tests do not wait for a second each


@pytest.fixture
def look(chromium: Browser) -> Looking:
    @asynccontextmanager
    async def looking(folder: Path, **context: Any) -> AsyncIterator[Look]:
        async with AsyncExitStack() as stack:
            store = stack.enter_context(Store.open(folder, read_only=True))
            root = await stack.enter_async_context(serve_app(viewer_app(store, name="tests")))
            opened = await chromium.new_context(viewport={"width": 1300, "height": 900}, **context)
            stack.push_async_callback(opened.close)
            it = Look.at(await opened.new_page(), root)
            yield it

    return looking


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on two tasks of run `eval`, and a tree of the first task in run `search`. To be read only."""
    folder = tmp_path_factory.mktemp("shop")
    with Store.open(folder) as store:
        for task in (shop_task(), shop_task("mugs--0", "find a blue mug")):
            await play(store, shop_agent(), shop_agent("hasty", hasty=True), task=task)
        await store.begin_run("search", {}, PROVENANCE)
        await store.trees.save("search", shop_tree(shop_task()).to_tree())
    return folder
