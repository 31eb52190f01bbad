"""`bestofq run` as a user meets it: a real page, a scripted model over real HTTP, with and without a terminal."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import Forked
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from test_search_command import shopper
from typer.testing import CliRunner, Result

from bestofq.cli.commands import app
from bestofq.cli.main import run
from bestofq.config.models import Models
from bestofq.envs.serving import serve_app
from bestofq.rollouts.console import console
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

HOME = """<title>Kettles\x1b[31m</title><h1>Blue kettle</h1><p>$20</p><img src=http://cdn.example/x.png>
<form method=post action=/order><button>Buy now</button></form>"""


class Shop:
    """A page that sells one thing, and the model that buys it, by its second candidate if the first is not allowed."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.orders = 0
        self.model = FaultServer(self.reply, seconds=seconds)

    async def home(self, _: Request) -> HTMLResponse:
        return HTMLResponse(HOME)

    async def order(self, _: Request) -> HTMLResponse:
        self.orders += 1
        return HTMLResponse("<title>Thanks</title><p>Order no. 1 is on its way")

    def reply(self, request: Mapping[str, Any]) -> str:
        if '"best"' in request["messages"][0]["content"]:
            return '{"best": 1}'
        content = request["messages"][1]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        if "did not allow" in text:
            return said(("so be it", {"type": "answer", "text": "I bought nothing."}))
        if "on its way" in text:
            return said(("done", {"type": "answer", "text": "Bought."}))
        element = int(re.findall(r"Buy now \[(\d+)\]", text)[0])
        return said(
            ("it is blue", {"type": "click", "element": element}), ("or look", {"type": "wait", "seconds": 0.1})
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[str, ...]]:
        """Both are served; the arguments of a run on the page."""
        routes = [Route("/", self.home), Route("/order", self.order, methods=["POST"])]
        async with serve_app(Starlette(routes=routes)) as url, self.model as model:
            yield ("run", "buy a kettle", "--url", url, "--model", "gpt-4.1", "--base-url", model.base_url,
                   "--set", "candidates=list")  # fmt: skip


def said(*candidates: tuple[str, dict[str, Any]]) -> str:
    return json.dumps({"candidates": [{"thought": why, "note": "", "action": what} for why, what in candidates]})


async def within(folder: Path, *arguments: str) -> Result:
    """The command in this process, without a terminal."""
    return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--store", str(folder)])


def bestofq(log: Path, *words: str, terminal: str | None = None) -> Forked:
    """The command in a process of its own, in the folder of its log."""
    return Forked(log, type_in, words, terminal, OPENAI_API_KEY="none", TERM="xterm", COLUMNS="120")


def type_in(words: Sequence[str], terminal: str | None) -> None:
    """Run the command as a shell does: in a process group of its own, which Ctrl-C stops."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(terminal or os.devnull, os.O_RDWR)
    for standard in (0, 1, 2) if terminal else (0,):
        os.dup2(file, standard)
    sys.stdin, sys.argv = os.fdopen(0), ["bestofq", *words]
    run()


async def after_a_step(log: Path, *words: str) -> Forked:
    """The command, its first step stored."""
    process = bestofq(log, *words)
    while "so far" not in process.said:
        assert process.runs, process.said
        await asyncio.sleep(0.01)
    return process


async def stop(process: Forked, *, impatiently: bool) -> int:
    """Press Ctrl-C, once or until the command has ended; return its exit code."""
    os.killpg(process.pid, signal.SIGINT)
    while impatiently and process.runs:
        await asyncio.sleep(0.01)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)
    return await asyncio.to_thread(process.wait)


async def test_without_a_terminal_nothing_irreversible_is_done(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.open() as arguments:
        result = await within(tmp_path, *arguments, "--agent", "picker")
    text = result.output
    assert result.exit_code == 0, text
    assert shop.orders == 0
    assert "\x1b" not in text
    assert re.search(r"click button Buy now +1\.000 █+\n +it is blue\n +wait 0\.1 ", text)
    assert all(words in text for words in ("--yes", "did not allow", "--hosts cdn.example"))
    assert re.search(r"so far \d+\.\d s, 200 tokens in, 40 out, \$0\.0007", text)
    assert "answer: I bought nothing.\nverdict: unjudged\n" in text
    with Store.open(tmp_path, read_only=True) as store:
        [episode] = store.episodes()
    assert f"episode {episode.id} in {tmp_path}" in text
    assert (episode.agent, episode.task.goal, episode.task.suite) == ("picker", "buy a kettle", "web")
    assert [len(step.decision.candidates) for step in episode.steps] == [2, 1]
    assert episode.steps[-1].terminated


async def test_at_a_terminal_the_user_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shop = Shop()
    screen, terminal = os.openpty()
    os.set_blocking(screen, False)
    shown = ""

    async def until(words: str) -> None:
        nonlocal shown
        async with asyncio.timeout(120):
            while words not in shown:
                await asyncio.sleep(0.02)
                try:
                    shown += os.read(screen, 100_000).decode(errors="replace")
                except BlockingIOError:
                    continue

    async with shop.open() as arguments:
        process = bestofq(tmp_path / "log", *arguments, "--agent", "picker", terminal=os.ttyname(terminal))
        await until("[y]es, [N]o, yes to [a]ll:")
        assert "The next action, click button Buy now, seems to buy or pay" in " ".join(shown.split())
        assert shop.orders == 0
        os.write(screen, b"y\n")
        await until("Enter to leave it open:")
        assert shop.orders == 1
        os.write(screen, b"yes\n")
        await until("see it: bestofq view")
        assert await asyncio.to_thread(process.wait) == 0
    os.close(screen)
    os.close(terminal)
    assert "██████████" in shown
    with Store.open(tmp_path / "runs/web", read_only=True) as store:
        [episode] = store.episodes()
    assert (episode.verdict.outcome, episode.verdict.reward) == ("success", 1.0)


@pytest.mark.parametrize("impatiently", [False, True])
async def test_ctrl_c_leaves_the_steps_and_the_same_command_begins_anew(
    impatiently: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chromium takes a while to close."""
    monkeypatch.chdir(tmp_path)
    shop = Shop(seconds=0.5)
    async with shop.open() as arguments:
        process = await after_a_step(tmp_path / "log", *arguments, "--yes")
        code, text = await stop(process, impatiently=impatiently), process.said
        assert code == 130, text
        assert text.endswith("\nstopped; the steps so far are in runs/web\n")
        assert "Traceback" not in text
        with Store.open(tmp_path / "runs/web", read_only=True) as store:
            [left] = store.episodes(status="interrupted")
        assert len(left.steps) == 1
        result = await within(tmp_path / "runs/web", *arguments, "--yes", "--again", "--set", "suite.step_limit=1")
    assert result.exit_code == 1
    assert "no answer: ran out of its 1 steps" in result.output
    with Store.open(tmp_path / "runs/web", read_only=True) as store:
        [failed] = store.episodes()
    assert (failed.run, failed.task.id, failed.verdict.outcome) == (left.run, left.task.id, "failure")


class Walk(Shop):
    """A harmless link to a page where the model answers."""

    def reply(self, request: Mapping[str, Any]) -> str:
        content = request["messages"][1]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        if found := re.findall(r"More \[(\d+)\]", text):
            self.orders += 1
            return said(("on", {"type": "click", "element": int(found[0])}))
        return said(("done", {"type": "answer", "text": "Seen."}))

    async def home(self, request: Request) -> HTMLResponse:
        return HTMLResponse("<a href=/?more>More</a>" if not request.url.query else "<p>All there is")


async def test_after_kill_9_it_goes_on_and_asks_for_no_step_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    walk = Walk(seconds=0.5)
    async with walk.open() as arguments:
        process = await after_a_step(tmp_path / "log", *arguments)
        os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        result = await within(tmp_path / "runs/web", *arguments)
    assert result.exit_code == 0, result.output
    assert "going on after 1 step" in result.output
    assert walk.orders == 1
    with Store.open(tmp_path / "runs/web", read_only=True) as store:
        [episode] = store.episodes()
        assert not store.summaries(status="interrupted")
    assert [step.decision.candidate.action.kind for step in episode.steps] == ["click", "answer"]


TASKS, KILLED_AT = 2, (2, 5)


class Killing:
    """Replies of an endpoint, which counts them; at some requests it ends the process that asks instead."""

    def __init__(self, *at: int) -> None:
        self.served, self.at = 0, list(at)
        self.process: Forked | None = None

    def __call__(self, request: Mapping[str, Any]) -> str:
        if self.process is not None and self.at and self.served >= self.at[0]:
            self.at.pop(0)
            os.kill(self.process.pid, signal.SIGKILL)
            raise ConnectionResetError
        self.served += 1
        return shopper(request)


def arguments(folder: Path, server: FaultServer) -> list[str]:
    endpoint = {"endpoints.chat.model": "m", "endpoints.chat.base_url": server.base_url}
    settings = {**endpoint, "candidates": "list", "suite.concurrency": "1", "suite.seed": "3"}
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["collect", "webshop", "--store", str(folder), "--tasks", str(TASKS), "--repeats", "1", *chosen]


async def run_to_end(words: list[str]) -> Result:
    """The command in this process, to its end."""
    done = await asyncio.to_thread(CliRunner(env={"OPENAI_API_KEY": "none"}).invoke, app, words)
    assert done.exit_code == 0, done.output
    return done


def played(folder: Path) -> list[dict[str, Any]]:
    """Without what they took and when."""
    apart: Any = {"id": True, "steps": {"__all__": {"decision": {"usage"}}}, "provenance": {"started_at", "command"}}
    with Store.open(folder, read_only=True) as store:
        assert not store.summaries(status="interrupted")
        return [episode.model_dump(exclude=apart) for episode in store.episodes()]


async def test_a_killed_collection_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Killed twice, it asks for no reply twice."""
    calm, killing = Killing(), Killing(*KILLED_AT)
    async with FaultServer(calm) as server:
        await run_to_end(arguments(tmp_path / "calm", server))
    async with FaultServer(killing) as server:
        words = arguments(tmp_path / "killed", server)
        for _ in KILLED_AT:
            killing.process = Forked(tmp_path / "log", app, words, OPENAI_API_KEY="none")
            assert await asyncio.to_thread(killing.process.wait) == -signal.SIGKILL
        await run_to_end(words)
    assert not killing.at
    assert played(tmp_path / "killed") == played(tmp_path / "calm")
    steps = sum(len(episode["steps"]) for episode in played(tmp_path / "calm"))
    assert steps > max(KILLED_AT)
    assert (calm.served, killing.served) == (steps, steps)


@pytest.mark.parametrize("impatiently", [False, True])
async def test_a_stopped_collection_says_how_it_continues_and_does(impatiently: bool, tmp_path: Path) -> None:
    replies, asked = Killing(), asyncio.Event()

    def reply(request: Mapping[str, Any]) -> str:
        if replies.served:  # a step is stored
            asked.set()
        return replies(request)

    async with FaultServer(reply, seconds=0.1) as server:
        words = arguments(tmp_path / "store", server)
        process = bestofq(tmp_path / "log", *words)
        await asked.wait()
        code, printed = await stop(process, impatiently=impatiently), process.said
        assert code == 130, printed
        assert printed.endswith("\nStopped. Run the same command again to continue.\n")
        assert "Traceback" not in printed
        await run_to_end(words)
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert not store.summaries(status="interrupted")
        assert sum(one.steps for one in store.summaries()) in (replies.served, replies.served - 1)  # the one in flight


def test_ctrl_c_while_a_command_that_is_done_ends_changes_nothing() -> None:
    slowly = "import atexit, time; atexit.register(lambda: (print('done', flush=True), time.sleep(1)))"
    words = [sys.executable, "-c", f"{slowly}\nfrom bestofq.cli.main import run; run()", "--version"]
    reset = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=reset
    ) as process:
        assert "done\n" in iter(process.stdout.readline, "")
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait()) == ("", 0)


@pytest.mark.parametrize(("command", "times"), [("collect", "--repeats"), ("eval", "--runs")])
async def test_results_are_shown_once_all_is_closed(
    command: str, times: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C after them has nothing to stop."""
    closing = Models.aclose

    async def close(models: Models) -> None:
        await closing(models)
        console.print("closed")

    monkeypatch.setattr(Models, "aclose", close)
    async with FaultServer(Killing()) as server:
        words = [command, *arguments(tmp_path / "store", server)[1:], "--set", "suite.step_limit=1"]
        words[words.index("--repeats")] = times
        words += ["--agents", "prompting"] if command == "eval" else []
        done = await run_to_end(words)
    assert "Costs" in done.output.partition("\nclosed\n")[2]
