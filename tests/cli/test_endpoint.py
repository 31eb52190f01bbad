"""`--model` and `--base-url`, and nothing else, put a model behind an endpoint into the place of the local one."""

import asyncio
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from broken_server import BrokenServer, Fault
from forked import Forked
from huggingface_hub import constants

from bestofq.cli.commands import app
from bestofq.cli.main import exit_with
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
from bestofq.reports.report import gather
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.viewer.export import export
from bestofq_sites.shipped import POCKET, POCKET_Q
from bestofq_sites.webshop.settings import WebShopSettings
from examples.serving.serve_model import model_app

Within = Callable[..., Awaitable[tuple[int, str]]]
KEY = "sk-this-must-never-be-written-down"
NAMED = ("--q", str(POCKET_Q), "--set", "model.embedder=pocket")
ONCE = ("--tasks", "1", "--runs", "1", "--set", "suite.step_limit=1")
NOBODY = "http://127.0.0.1:9/v1"


def shopper(request: Mapping[str, Any]) -> str:
    """Searches, opens the first two results as candidates, buys; picks the second. Asked for one candidate alone, it
    offers the first of them greedily, else the last. Any other question is answered."""
    if len(request["messages"]) == 1:
        return "yes"
    system, user, *_ = (message["content"] for message in request["messages"])
    text = user if isinstance(user, str) else user[0]["text"]
    if '"best"' in system:
        return '{"best": 2}'

    def offer(*actions: dict[str, Any]) -> str:
        if "the one next action" in system:
            actions = actions[-1:] if request["temperature"] else actions[:1]
        return json.dumps({"candidates": [{"thought": "so", "note": "", "action": action} for action in actions]})

    def click(pattern: str) -> list[dict[str, Any]]:
        return [{"type": "click", "element": int(mark)} for mark in re.findall(pattern + r".*\[(\d+)\]", text)]

    if buy := click("Buy Now"):
        return offer(*buy)
    if results := click(r"\n\$"):
        return offer(*results[:2])
    return offer({"type": "write", "element": 1, "text": "lamp", "enter": True}, {"type": "refresh"})


LOADED = """
import atexit, sys
atexit.register(lambda: print("loaded:", [name for name in ("torch", "transformers") if name in sys.modules]))
from bestofq.cli.main import run
run()
"""


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Within:
    """Run a command in a thread of this process, which has imported already what the command needs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(console, "_width", 200)  # it may have read COLUMNS long ago

    def call() -> int:
        with pytest.raises(SystemExit) as end:
            exit_with(app)
        assert isinstance(end.value.code, int)
        return end.value.code

    async def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["bestofq", *arguments])
        code = await asyncio.to_thread(call)
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return command


def at(server: BrokenServer, model: str = "gpt-x") -> tuple[str, ...]:
    return ("--model", model, "--base-url", server.base_url)


def written(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_commands_that_ask_an_endpoint_load_no_pytorch(tmp_path: Path) -> None:
    """In a process of its own, which prints what it loaded."""
    environment = {"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OPENAI_API_KEY": KEY}
    async with BrokenServer(shopper) as server:
        words = ("eval", *at(server), "--agents", "prompting,picker", *ONCE)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", LOADED, *words), cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
    assert (process.returncode, printed.split(b"\n")[-2]) == (0, b"loaded: []"), printed


async def test_all_agents_play_through_an_endpoint_that_sometimes_fails(tmp_path: Path, within: Within) -> None:
    async with BrokenServer(shopper, {"429": 0.1, "500": 0.1}, seed=4, log_prob=-0.5) as server:
        prices = ("--set", "endpoints.chat.usd_in=0.15", "--set", "endpoints.chat.usd_out=0.6")
        code, printed = await within("eval", *at(server), *prices, *NAMED, *ONCE, "--out", "result.json")
    assert code == 0, printed
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        episodes = {episode.agent: episode for episode in store.episodes(run="eval")}
    assert {*episodes} == {"prompting", "random", "picker", "best-of-q", "prior"}
    picked = episodes["picker"].steps[0].decision
    assert (len(picked.candidates), picked.scores, picked.chosen) == (2, (0.0, 1.0), 1)
    usage = {used.role: used for used in picked.usage}
    assert usage["proposer"].usd == pytest.approx(usage["proposer"].calls * (100 * 0.15 + 20 * 0.6) / 1e6)
    assert usage["critic"].calls == 1
    assert episodes["best-of-q"].steps[0].decision.state_value is not None
    ranked = [step.decision.candidates for step in episodes["prior"].steps]
    assert all(one.log_prob is not None and one.log_prob <= -0.5 for candidates in ranked for one in candidates)
    assert max(map(len, ranked)) == 2
    assert KEY.encode() not in written(tmp_path)
    assert KEY not in printed


async def test_agents_that_cannot_play_are_left_out_by_name(tmp_path: Path, within: Within) -> None:
    """Without a Q-function those that rank by it. Without log-probabilities `prior`, which is refused if named."""
    async with BrokenServer(shopper, log_prob=-0.5) as server:
        code, printed = await within("eval", *at(server), *ONCE, "--store", "no_q")
    assert code == 0, printed
    [sentence] = [line for line in printed.splitlines() if "left out" in line]
    assert all(word in sentence for word in ("best-of-q", "prior", "gpt-x", "--q"))
    with Store.open(tmp_path / "no_q", read_only=True) as store:
        assert {summary.agent for summary in store.summaries(run="eval")} == {"prompting", "random", "picker"}
    for refuses in ((), ("logprobs",)):
        async with BrokenServer(shopper, refuses=refuses) as server:
            code, printed = await within("eval", *at(server), *NAMED, *ONCE, "--store", f"no_{len(refuses)}")
            assert code == 0, printed
            assert sum("prior is left out" in line for line in printed.splitlines()) == 1
            asked = ("--agents", "prompting,prior", "--store", "asked")
            code, printed = await within("eval", *at(server), *NAMED, *ONCE, *asked)
        assert (code, "--agents" in printed) == (2, True)
    assert not (tmp_path / "asked").exists()


async def test_collecting_ends_with_its_cost_and_training_a_network_needs_a_named_embedder(within: Within) -> None:
    async with BrokenServer(shopper) as server:
        few = ("--repeats", "1", "--set", "suite.train_tasks=2")
        code, printed = await within("collect", *at(server, "qwen2.5-vl-7b"), *few)
    assert code == 0, printed
    calls = server.seen["ok"]
    costs = next((line for line in printed.splitlines() if "proposer" in line), printed)
    assert f"{100 * calls:,}" in costs
    assert f"{calls * (100 * 0.15 + 20 * 0.6) / 1e6:.2g}" in costs
    code, printed = await within("train", "--out", "q", "--set", "value=network")
    assert (code, "--set model.embedder=" in printed) == (2, True)


async def test_another_endpoint_picks(tmp_path: Path, within: Within) -> None:
    def picking(request: Mapping[str, Any]) -> str:
        assert '"best"' in request["messages"][0]["content"]
        return shopper(request)

    async with BrokenServer(shopper) as proposing, BrokenServer(picking) as picker:
        other = ("model=gpt-4.1", f"base_url={picker.base_url}")
        words = [word for setting in other for word in ("--set", f"endpoints.picker_chat.{setting}")]
        code, printed = await within("eval", *at(proposing), *words, "--agents", "picker", *ONCE)
    assert code == 0, printed
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        (episode,) = store.episodes(run="eval")
        (run,) = store.runs()
    assert {request["model"] for request in proposing.requests} == {"gpt-x"}
    assert {request["model"] for request in picker.requests} == {"gpt-4.1"}
    decision = episode.steps[0].decision
    assert decision.chosen == 1
    critic = {used.role: used for used in decision.usage}["critic"]
    assert (critic.calls, critic.usd) == (1, (100 * 2.0 + 20 * 8.0) / 1e6)
    assert run.config["picker_chat"] == {"model": "gpt-4.1", "base_url": picker.base_url, "temperature": 0.7}


async def test_no_echoed_secret_reaches_store_result_or_report(tmp_path: Path, within: Within) -> None:
    """The endpoint writes the key, as it is and escaped, and the address's password into thoughts, refusals and errors.
    The store's rows are packed, so they are read, too."""
    password = "hunter2-or-longer"
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)

    def echoing(request: Mapping[str, Any]) -> str:
        return shopper(request).replace('"so"', f'"so {KEY}, {escaped} and {password}"')

    shares: dict[Fault, float] = {"429": 0.2, "500": 0.1, "refusal": 0.1, "nonsense": 0.1, "page": 0.1}
    async with BrokenServer(echoing, shares, echo=True, seed=5) as server:
        address = server.base_url.replace("://", f"://ann:{password}@")
        judge = ("--set", "endpoints.judge.model=j", "--set", f"endpoints.judge.base_url={address}")
        words = ("eval", "--model", "m", "--base-url", address, *judge, "--agents", "prompting", "--runs", "1")
        code, printed = await within(*words, "--tasks", "4", "--out", "result.json")
        assert code == 0, printed
        code, again = await within(*words, "--tasks", "4")  # the same run: nothing differs
        assert code == 0, again
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        kept = "".join(episode.model_dump_json() for episode in store.episodes(run="eval")) + repr(store.runs())
        pages = export(store, gather(store), tmp_path / "report", title="T").parent.rglob("*.html")
        report = "".join(page.read_text("utf-8") for page in pages)
    for text in (kept, report):
        assert "so [OPENAI_API_KEY], [OPENAI_API_KEY] and ***" in text  # they came, and were taken out
    assert "ann:***@127.0.0.1" in kept
    everything = kept + report + printed + again + written(tmp_path).decode("latin-1")
    for secret in (password, KEY, escaped):
        assert secret not in everything


@pytest.mark.parametrize(
    ("fault", "address", "code", "words"),
    [
        ("401", None, 2, ("OPENAI_API_KEY",)),
        ("500", None, 1, ("m at http://127.0.0.1:", "gave no reply in", "HTTP 500")),
        ("ok", NOBODY, 3, (f"m at {NOBODY}: no connection", "start the server there")),
        ("ok", "127.0.0.1:8000/v1", 2, ("endpoints.chat.base_url",)),
        ("ok", "ftp://127.0.0.1/v1", 2, ("endpoints.chat.base_url",)),
    ],
)
async def test_an_endpoint_that_cannot_be_used_ends_the_command_with_a_sentence(
    fault: Fault, address: str | None, code: int, words: tuple[str, ...], tmp_path: Path, within: Within
) -> None:
    async with BrokenServer(shopper, {fault: 1.0}) as server:
        where = ("--model", "m", "--base-url", address or server.base_url, "--set", "endpoints.chat.deadline=0.5")
        ended, printed = await within("eval", *where, "--agents", "prompting", *ONCE)
    assert ended == code, printed
    for word in words:
        assert word in " ".join(printed.split())
    assert "Traceback" not in printed
    assert KEY not in printed
    assert KEY.encode() not in written(tmp_path)


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
    process = Forked(folder / "log", run_transformers, folder, ("serve", "pocket", *where))
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(180):
            while True:
                assert process.runs, process.said
                try:
                    await client.get(f"http://127.0.0.1:{port}/health")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()


def run_transformers(folder: Path, words: Sequence[str]) -> None:
    from transformers.cli.transformers import app  # it takes a second to import

    os.chdir(folder)
    constants.HF_HUB_OFFLINE = True
    app(words)


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


async def test_all_agents_decide_alike_through_our_own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
