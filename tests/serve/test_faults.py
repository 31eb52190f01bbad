"""An upstream that fails three times in ten: the agent succeeds as often as without the proxy, fault by fault."""

import asyncio
import json
from pathlib import Path

import pytest
from openai import APIError, AsyncOpenAI

from bestofq.core.decision import Provenance
from bestofq.serve.app import ServeConfig, proxy_app
from bestofq.serve.sessions import Sessions
from bestofq.store.store import Store
from bestofq.testing import FaultServer, serve_app
from tests.serve.agents import browser_use, click

FAULTS: dict[str, float] = {"429": 0.12, "500": 0.04, "503": 0.04, "reset": 0.05, "silence": 0.05}
AGENTS, STEPS = 12, 4


async def agent(url: str, name: int, retries: int) -> bool:
    """Whether it came to its end."""
    memory = ""
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=retries, timeout=0.4) as client:
        for step in range(STEPS):
            try:
                said = await client.chat.completions.create(**browser_use(f"buy {name}", step + 1, memory))
            except APIError:
                return False
            memory = json.loads(said.choices[0].message.content or "")["memory"]
    return True


async def fares(name: int, root: str | None, folder: Path) -> bool:
    """How an agent does whose upstream's faults come from its name; behind the proxy, or (`root` None) without it."""
    async with FaultServer(lambda request: click(1, f"saw {name}"), FAULTS, seed=name) as server:
        if root is None:
            return await agent(server.base_url, name, 1)
        with Store.open(folder / str(name)) as store:
            made = Provenance(version="test")
            await store.begin_run("serve", {}, made)
            app = proxy_app(ServeConfig(), server.base_url, Sessions(store, "serve", made, ("prompting",)))
            async with serve_app(app) as url, app.router.lifespan_context(app):
                return await agent(f"{url}/v1", name, 1)


async def test_an_agent_succeeds_as_often_as_without_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestofq.serve.app.LEAVING", 0.1)  # silent requests are not waited for
    direct = await asyncio.gather(*(fares(name, None, tmp_path) for name in range(AGENTS)))
    through = await asyncio.gather(*(fares(name, "proxy", tmp_path) for name in range(AGENTS)))
    assert 0 < sum(direct) < AGENTS
    assert through == direct
