"""The pocket model behind servers of the OpenAI protocol decides as it does in this process."""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from bestofq.config.agents import AgentKind
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core import seeds
from bestofq.core.decision import Decision
from bestofq.envs.serving import serve_app
from bestofq.learning.checkpoint import load_value, read_card
from bestofq.models.chat import ChatConfig
from bestofq.recipes.collect import Play, compare
from bestofq.store.store import Store
from bestofq_sites.shipped import POCKET, POCKET_Q
from bestofq_sites.webshop.settings import WebShopSettings
from examples.serving.serve_model import model_app

MODEL = ModelSettings(precision="float32", device="cpu")
TASKS = 1


@asynccontextmanager
async def transformers_serve(folder: Path) -> AsyncIterator[str]:
    """`transformers serve pocket`, another project's server, with the checkpoint as it ships."""
    shutil.copytree(POCKET, folder / "pocket")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ("--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32")
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "transformers.cli.transformers", "serve", "pocket", *where),
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(180):
            while True:
                assert process.returncode is None, (folder / "log").read_text()
                try:
                    await client.get(f"http://127.0.0.1:{port}/health")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


async def decisions(folder: Path, agents: list[AgentKind], chat: ChatConfig | None = None) -> list[list[Decision]]:
    """Of each episode of each agent, on the same tasks and seeds."""
    models = Models(
        BestOfQSettings(model=MODEL, endpoints={"chat": chat} if chat else {}, suite=WebShopSettings(step_limit=2))
    )
    models = models.with_embedding(read_card(POCKET_Q).embed)
    values = load_value(POCKET_Q, embed=models.embedder.spec) if "best-of-q" in agents else None
    async with open_suite(models) as suite:
        with Store.open(folder) as store:
            await compare(models, suite, store, "r", Play(values=values, split="dev", limit=TASKS), agents)
            episodes = sorted(store.episodes(run="r"), key=lambda e: (e.agent, e.task.id))
    assert len(episodes) == TASKS * len(agents)
    assert {episode.verdict.outcome for episode in episodes} <= {"success", "failure"}
    return [[step.decision for step in episode.steps] for episode in episodes]


def weighed(decision: Decision) -> tuple[object, ...]:
    """All of a decision but its log-probabilities, which are compared apart, and what it took."""
    candidates = [candidate.model_copy(update={"log_prob": None}) for candidate in decision.candidates]
    return candidates, decision.chosen, decision.explored


async def test_whole_episodes_through_transformers_serve(tmp_path: Path) -> None:
    async with transformers_serve(tmp_path) as url:
        remote = await decisions(tmp_path / "remote", ["prompting"], ChatConfig(model="pocket", base_url=url))
    local = await decisions(tmp_path / "local", ["prompting"])
    assert [[weighed(d) for d in episode] for episode in remote] == [[weighed(d) for d in episode] for episode in local]
    used = remote[0][0].usage[0]
    assert (used.role, used.calls, used.usd) == ("proposer", 1, None)
    assert (used.tokens_in, used.tokens_out) == (local[0][0].usage[0].tokens_in, local[0][0].usage[0].tokens_out)


async def test_all_agents_decide_the_same_through_our_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the seeds have the 31 bits that an endpoint is given."""
    derive = seeds._derive_seed
    monkeypatch.setattr(seeds, "_derive_seed", lambda *of: derive(*of) >> 32)
    agents: list[AgentKind] = ["picker", "verifier", "best-of-q"]
    models = Models(BestOfQSettings(model=MODEL))
    async with serve_app(model_app(models.local)) as url:
        chat = ChatConfig(model="pocket", base_url=f"{url}/v1")
        remote = await decisions(tmp_path / "remote", agents, chat)
        asked = Models(BestOfQSettings(model=MODEL, endpoints={"chat": chat}))
        assert await asked.gives_log_probs()
        await asked.aclose()
    local = await decisions(tmp_path / "local", agents)
    assert max(len(d.candidates) for episode in local for d in episode) == 3
    for there, here in zip(remote, local, strict=True):
        assert [weighed(d) for d in there] == [weighed(d) for d in here]
        for a, b in zip(there, here, strict=True):
            assert a.scores == pytest.approx(b.scores, abs=1e-4)
            assert [c.log_prob for c in a.candidates] == pytest.approx([c.log_prob for c in b.candidates], abs=1e-4)
