"""`--model` and `--base-url`, and nothing else, put a model behind an endpoint into the place of the local one."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from broken_server import BrokenServer, Fault

from bestofq.cli.commands import app
from bestofq.cli.main import exit_with
from bestofq.reports.report import gather
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.viewer.export import export
from bestofq_sites.shipped import POCKET_Q

Within = Callable[..., Awaitable[tuple[int, str]]]
KEY = "sk-this-must-never-be-written-down"
NAMED = ("--q", str(POCKET_Q), "--set", "model.embedder=pocket")
ONCE = ("--tasks", "1", "--runs", "1")


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
atexit.register(lambda: print("loaded:", [name for name in ("torch", "transformers", "ray") if name in sys.modules]))
from bestofq.cli.main import run
run()
"""


async def bestofq(folder: Path, *arguments: str) -> tuple[int, str]:
    """Ends with which of PyTorch, transformers and Ray it loaded."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LOADED, *arguments),
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OPENAI_API_KEY": KEY, "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Within:
    """The same in a thread of this process, which has imported already what the command needs."""
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
        said = capfd.readouterr()
        return code, said.out + said.err

    return command


def written(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_eval_through_an_endpoint(tmp_path: Path, within: Within) -> None:
    """PyTorch is loaded for a Q-function only."""
    async with BrokenServer(shopper, {"429": 0.1, "500": 0.1}, seed=4) as server:
        prices = ("--set", "endpoints.chat.usd_in=0.15", "--set", "endpoints.chat.usd_out=0.6")
        where = (
            "--model",
            "qwen2.5-vl-7b",
            "--base-url",
            server.base_url,
            *prices,
        )
        few = ("--tasks", "2", "--runs", "1")
        code, said = await bestofq(tmp_path, "eval", *where, "--agents", "prompting,picker", *few)
        assert (code, said.rstrip().rpartition("\n")[2]) == (0, "loaded: []"), said
        code, with_q = await within("eval", *where, *NAMED, "--agents", "best-of-q", *few, "--out", "result.json")
    assert code == 0, with_q
    said += with_q
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        episodes = {kind: list(store.episodes(run="eval", agent=kind)) for kind in ("prompting", "picker", "best-of-q")}
    assert {kind: len(some) for kind, some in episodes.items()} == {"prompting": 2, "picker": 2, "best-of-q": 2}
    first = episodes["picker"][0].steps[0].decision
    assert (len(first.candidates), first.scores, first.chosen) == (2, (0.0, 1.0), 1)
    usage = {used.role: used for used in first.usage}
    assert usage["proposer"].usd == (100 * 0.15 + 20 * 0.6) / 1e6
    assert usage["critic"].calls == 1
    assert episodes["best-of-q"][0].steps[0].decision.state_value is not None
    assert KEY.encode() not in written(tmp_path)
    assert KEY not in said


def agents_of(folder: Path) -> set[str]:
    with Store.open(folder / "runs/webshop", read_only=True) as store:
        return {summary.agent for summary in store.summaries(run="eval")}


async def test_without_a_q_function_by_name_the_learned_agents_are_left_out(tmp_path: Path, within: Within) -> None:
    async with BrokenServer(shopper, log_prob=-0.5) as server:
        code, said = await within("eval", "--model", "gpt-x", "--base-url", server.base_url, *ONCE)
    assert code == 0, said
    assert agents_of(tmp_path) == {"prompting", "random", "picker"}
    [sentence] = [line for line in said.splitlines() if "left out" in line]
    assert all(word in sentence for word in ("best-of-q", "prior", "gpt-x", "--q"))


async def test_prior_ranks_replies_with_the_endpoint_s_log_probabilities(tmp_path: Path, within: Within) -> None:
    async with BrokenServer(shopper, log_prob=-0.5) as server:
        code, said = await within("eval", "--model", "gpt-x", "--base-url", server.base_url, *NAMED, *ONCE)
    assert code == 0, said
    assert agents_of(tmp_path) == {"prompting", "random", "picker", "best-of-q", "prior"}
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        [episode] = store.episodes(run="eval", agent="prior")
    offered = [candidate for step in episode.steps for candidate in step.decision.candidates]
    assert all(candidate.log_prob is not None and candidate.log_prob <= -0.5 for candidate in offered)
    assert max(len(step.decision.candidates) for step in episode.steps) == 2


@pytest.mark.parametrize("refuses", [(), ("logprobs",)], ids=["none given", "refused"])
async def test_where_the_endpoint_gives_no_log_probabilities_prior_is_left_out(
    refuses: tuple[str, ...], tmp_path: Path, within: Within
) -> None:
    async with BrokenServer(shopper, refuses=refuses) as server:
        where = ("--model", "gpt-x", "--base-url", server.base_url, *NAMED, *ONCE)
        code, said = await within("eval", *where)
        assert code == 0, said
        assert agents_of(tmp_path) == {"prompting", "random", "picker", "best-of-q"}
        assert sum("prior is left out" in line for line in said.splitlines()) == 1
        code, said = await within("eval", *where, "--agents", "prompting,prior", "--store", "asked")
    assert code == 2
    assert "--agents" in said
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "--q", str(POCKET_Q), *ONCE),
        ("collect", "--agent", "best-of-q", "--q", str(POCKET_Q)),
        ("improve",),
    ],
    ids=["eval", "collect", "improve"],
)
async def test_an_endpoint_s_texts_are_embedded_by_no_model_that_was_not_named(
    command: tuple[str, ...], within: Within
) -> None:
    async with BrokenServer(shopper) as server:
        code, said = await within(*command, "--model", "gpt-x", "--base-url", server.base_url)
    assert code == 2
    assert "--set model.embedder=" in said
    assert not server.requests


async def test_episodes_of_an_endpoint_are_learned_from_with_a_named_embedder_only(within: Within) -> None:
    few = ("--set", "suite.train_tasks=2")
    async with BrokenServer(shopper) as server:
        code, said = await within("collect", "--model", "m", "--base-url", server.base_url, "--repeats", "1", *few)
    assert code == 0, said
    code, said = await within("train", "--out", "q")
    assert code == 2
    assert "--set model.embedder=" in said


async def test_another_endpoint_picks(tmp_path: Path, within: Within) -> None:
    def picking(request: Mapping[str, Any]) -> str:
        assert '"best"' in request["messages"][0]["content"]
        return shopper(request)

    async with BrokenServer(shopper) as proposing, BrokenServer(picking) as picker:
        where = ("--model", "qwen2.5-vl-7b", "--base-url", proposing.base_url)
        other = (
            "--set",
            "endpoints.picker_chat.model=gpt-4.1",
            "--set",
            f"endpoints.picker_chat.base_url={picker.base_url}",
        )
        code, said = await within("eval", *where, *other, "--agents", "picker", "--tasks", "1", "--runs", "1")
    assert code == 0, said
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        (episode,) = store.episodes(run="eval")
        (run,) = store.runs()
    assert {request["model"] for request in proposing.requests} == {"qwen2.5-vl-7b"}
    assert {request["model"] for request in picker.requests} == {"gpt-4.1"}
    first = episode.steps[0].decision
    assert first.chosen == 1
    critic = {used.role: used for used in first.usage}["critic"]
    assert (critic.calls, critic.usd) == (1, (100 * 2.0 + 20 * 8.0) / 1e6)
    assert run.config["picker_chat"] == {"model": "gpt-4.1", "base_url": picker.base_url, "temperature": 0.7}


async def test_an_echoed_key_reaches_neither_store_nor_result_nor_report(tmp_path: Path, within: Within) -> None:
    """The endpoint writes the key into thoughts, refusals and errors; the store's rows are packed, so they are read."""

    def echoing(request: Mapping[str, Any]) -> str:
        return shopper(request).replace('"so"', f'"so {KEY}"')

    shares: dict[Fault, float] = {"429": 0.2, "500": 0.1, "refusal": 0.1, "nonsense": 0.1, "page": 0.1}
    async with BrokenServer(echoing, shares, echo=True, seed=5) as server:
        where = ("--model", "m", "--base-url", server.base_url)
        what = ("--agents", "prompting", "--tasks", "4", "--runs", "1", "--out", "result.json")
        code, said = await within("eval", *where, *what)
        assert code == 0, said
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        episodes = "".join(episode.model_dump_json() for episode in store.episodes(run="eval"))
        pages = export(store, gather(store), tmp_path / "report", title="T").parent.rglob("*.html")
        report = "".join(page.read_text("utf-8") for page in pages)
        runs = repr(store.runs())
    assert "so [OPENAI_API_KEY]" in episodes  # it came, and was taken out
    assert "so [OPENAI_API_KEY]" in report
    assert KEY not in episodes + runs + said
    assert KEY.encode() not in written(tmp_path)


async def test_a_password_in_the_address_and_an_escaped_echo_reach_no_byte(tmp_path: Path, within: Within) -> None:
    """Searched as they are and escaped, in every file, and in what the store has packed."""
    password = "hunter2-or-longer"
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)

    def echoing(request: Mapping[str, Any]) -> str:
        return shopper(request).replace('"so"', f'"so {escaped} and {password}"')

    async with BrokenServer(echoing) as server:
        address = server.base_url.replace("://", f"://ann:{password}@")
        where = (
            "--model",
            "m",
            "--base-url",
            address,
            "--set",
            "endpoints.judge.model=j",
            "--set",
            f"endpoints.judge.base_url={address}",
        )
        code, said = await within("eval", *where, "--agents", "prompting,picker", *ONCE, "--out", "result.json")
        assert code == 0, said
        code, more = await within("eval", *where, "--agents", "prompting", *ONCE)  # the same run: nothing differs
        assert code == 0, more
    with Store.open(tmp_path / "runs/webshop", read_only=True) as store:
        kept = "".join(episode.model_dump_json() for episode in store.episodes(run="eval")) + repr(store.runs())
    everything = kept + said + more + written(tmp_path).decode("latin-1")
    assert "so [OPENAI_API_KEY] and ***" in kept
    assert "ann:***@127.0.0.1" in kept
    for secret in (password, KEY, escaped):
        assert secret not in everything


async def test_a_refused_key_ends_the_run_with_a_sentence(within: Within) -> None:
    async with BrokenServer(shopper, {"401": 1.0}) as server:
        code, said = await within("eval", "--model", "m", "--base-url", server.base_url, "--agents", "prompting")
    assert code == 2
    assert "OPENAI_API_KEY" in said
    assert "Traceback" not in said
    assert KEY not in said


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "ftp://127.0.0.1/v1"])
async def test_what_can_be_no_endpoint_is_refused_before_it_is_tried(
    address: str, tmp_path: Path, within: Within
) -> None:
    code, said = await within("eval", "--model", "m", "--base-url", address, "--agents", "prompting")
    assert code == 2
    assert "endpoints.chat.base_url" in said
    assert written(tmp_path) == b""


async def test_an_endpoint_that_never_answers_is_named_with_what_is_wrong(within: Within) -> None:
    async with BrokenServer(shopper, {"500": 1.0}) as server:
        where = ("--model", "m", "--base-url", server.base_url, "--set", "endpoints.chat.deadline=0.1")
        code, said = await within("eval", *where, "--agents", "prompting", "--tasks", "1", "--runs", "1")
    assert code == 1
    told = " ".join(said.split())
    assert f"m at {server.base_url} gave no reply in" in told
    assert "HTTP 500" in told


async def test_an_endpoint_that_is_not_there_ends_the_command(within: Within) -> None:
    where = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--set", "endpoints.chat.deadline=1")
    code, said = await within("eval", *where, "--agents", "prompting", "--tasks", "1", "--runs", "1")
    assert code == 3
    assert "m at http://127.0.0.1:9/v1: no connection" in " ".join(said.split())
    assert "start the server there" in " ".join(said.split())


async def test_collecting_ends_with_what_it_cost(within: Within) -> None:
    async with BrokenServer(shopper) as server:
        where = ("--model", "qwen2.5-vl-7b", "--base-url", server.base_url)
        code, said = await within("collect", *where, "--repeats", "1", "--set", "suite.train_tasks=2")
    assert code == 0, said
    calls = server.seen["ok"]
    costs = next((line for line in said.splitlines() if "proposer" in line), said)
    assert f"{100 * calls:,}" in costs
    assert f"{calls * (100 * 0.15 + 20 * 0.6) / 1e6:.2g}" in costs
