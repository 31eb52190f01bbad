"""`bestofq judge` as a user runs it: by an endpoint and by a local model, against what the environment says."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny_llama import save_instruct_llama
from typer.testing import CliRunner

from bestofq.agents.agent import Agent
from bestofq.agents.judges.chat import OPENTABLE_CRITERIA
from bestofq.cli.commands import app
from bestofq.core.actions import Write, action_text
from bestofq.core.decision import DECIDED, Provenance, State
from bestofq.core.errors import BestOfQError
from bestofq.core.observation import Task
from bestofq.core.protocols import Env
from bestofq.reports.agreement import Agreement
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.oracles.booking import BookingOracle

Replies = Callable[[State, int], Sequence[str]]


async def bestofq(*arguments: str) -> tuple[int, str]:
    """Exit code and words of a command, run in a thread beside the endpoint's loop."""
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    match done.exception:
        case BestOfQError() as error:
            return error.exit_code, str(error)
        case None | SystemExit():
            return done.exit_code, done.output
        case error:
            raise error


def against_env(folder: Path, run: str, model: object, base_url: str, *more: str) -> Awaitable[tuple[int, str]]:
    judge = ("judge", "--store", str(folder), "--run", run, "--model", str(model), "--base-url", base_url)
    return bestofq(*judge, "--against-env", *more)


async def play(
    folder: Path, run: str, site: Booking | WebShop, tasks: Sequence[Task], replies: Replies, *, step_limit: int
) -> None:
    """Store a run of a scripted agent."""

    async def make() -> Env:
        return TextEnv(site)

    agent = Agent(name="script", proposer=ScriptedProposer(replies))
    with Store.open(folder) as store:
        await store.begin_run(run, {}, Provenance(version="test"))
        await run_many(tasks, make, agent, store=store, run=run, options=RunOptions(step_limit=step_limit))


def shopper(state: State, n: int) -> list[str]:
    """Buys the first result of a search for the goal's words; gives up on every third task."""
    seen = state.observation
    for words in ("Buy Now", "$"):
        if found := [e for e in seen.elements if words in e.name]:
            return [f"click [{found[0].mark}]"]
    links = [e for e in seen.elements if e.role == "link"]
    return [f"click [{links[-1].mark}]"] if len(state.decisions) else [f'write [1] "{state.task.goal[:30]}" enter']


async def shopped(folder: Path) -> int:
    """A stored run in the text shop; how many of its episodes ended by an answer or a purchase."""
    suite = synthetic_suite(SyntheticConfig(seed=3, products_per_category=12))
    tasks = suite.tasks("train", 12)

    def replies(state: State, n: int) -> list[str]:
        if state.task.id == tasks[0].id:
            return ["click [1]"]  # never ends
        return ['answer "There is none."'] if len(state.decisions) == 3 else shopper(state, n)

    await play(folder, "shop", suite, tasks, replies, step_limit=6)
    with Store.open(folder, read_only=True) as store:
        return sum(not summary.reason for summary in store.summaries(run="shop"))


def hasty(request: Mapping[str, Any]) -> str:
    """Sees no pictures; takes every purchase for a success."""
    text = request["messages"][1]["content"]
    assert isinstance(text, str)
    return json.dumps({"reason": "so", "verdict": "failure" if "There is none." in text else "success"})


async def test_a_judge_against_the_shop(tmp_path: Path) -> None:
    folder, out = tmp_path / "runs", tmp_path / "agreement.json"
    ended = await shopped(folder)
    assert 0 < ended < 12
    async with FaultServer(hasty, {"500": 0.1}, seed=1) as server:
        where = (folder, "shop", "qwen2.5-vl-7b", server.base_url)
        code, planned = await against_env(*where, "--dry-run")
        assert (code, server.requests) == (0, []), planned
        assert f"would judge {ended} episodes of shop" in planned
        code, judged = await against_env(*where, "--out", str(out))
        assert code == 0, judged
        calls = server.seen["ok"]
        code, again = await against_env(*where)
        assert code == 0, again
        assert server.seen["ok"] == calls == ended
        words = ("judge", "--store", str(folder), "--run", "shop", "--model", "qwen2.5-vl-7b")
        code, refused = await bestofq(*words, "--base-url", server.base_url)
    agreement = Agreement.model_validate_json(out.read_text("utf-8"))
    assert agreement.compared == ended
    assert agreement.judge.startswith("qwen2.5-vl-7b")
    assert "Cohen's κ" in judged
    assert "USD" in judged
    assert "nothing new" in again
    assert code == 2
    assert "--against-env" in refused
    with Store.open(folder, read_only=True) as store:
        assert {summary.judge for summary in store.summaries(run="shop")} == {""}

    code, judged = await against_env(folder, "shop", save_instruct_llama(tmp_path / "tiny-judge"), "local")
    assert code == 0, judged
    with Store.open(folder, read_only=True) as store:
        _, (judge, verdicts) = store.verdicts(run="shop").items()
    assert judge.startswith("tiny-judge, 0 screenshots")
    assert len(verdicts) == ended
    assert {verdict.outcome for verdict in verdicts.values()} <= set(DECIDED)
    assert (await against_env(folder, "shop", tmp_path / "nothing", "local"))[0] == 3


async def book_as_told(suite: Booking, task: Task, *, name: str | None) -> list[str]:
    """The oracle's commands from start to reservation; under another name if one is given."""
    env, oracle = TextEnv(suite), BookingOracle(suite, task.id)
    seen, ended, commands = await env.reset(task, seed=0), False, list[str]()
    while not ended:
        action = oracle.advise(env, seen).action
        result = await env.step(action)
        if isinstance(action, Write) and action.text == oracle.goal.name and name is not None:
            action = action.model_copy(update={"text": name})
        commands.append(action_text(action))
        seen, ended = result.observation, result.terminated
    return commands


def strict(request: Mapping[str, Any]) -> str:
    """Compares the name given with the one in the task; insists on what Agent Q's Fig. 5 shows."""
    content = request["messages"][1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    task, _, history = text.partition("What the agent did:")
    assert "click button Complete reservation" in history
    assert "/done" in history
    if asked := re.search(r'ask "Which seating.*', history):
        assert "The user replied: " in asked[0]
    [name] = re.findall(r'write textbox Name "(.*)"', history)
    return json.dumps({"reason": f"it was for {name}", "verdict": "success" if name in task else "failure"})


def lenient(_: Mapping[str, Any]) -> str:
    return json.dumps({"reason": "it says confirmed", "verdict": "success"})


def by_criteria(request: Mapping[str, Any]) -> str:
    """The strict one, by the four criteria."""
    verdict = json.loads(strict(request))
    met = {**dict.fromkeys(OPENTABLE_CRITERIA, True), "user_information": verdict["verdict"] == "success"}
    return json.dumps({name: {"reason": verdict["reason"], "met": holds} for name, holds in met.items()})


@pytest.fixture(scope="module")
def reserved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four reservations, one of them for somebody else."""
    suite, folder = Booking(), tmp_path_factory.mktemp("tables")

    async def reserve() -> None:
        tasks = suite.tasks("dev", 4)
        names = [None, None, "Sam Elsewhere", None]
        ways = {t.id: await book_as_told(suite, t, name=name) for t, name in zip(tasks, names, strict=True)}

        def replies(state: State, _: int) -> list[str]:
            return [ways[state.task.id][len(state.decisions)]]

        await play(folder, "tables", suite, tasks, replies, step_limit=30)

    asyncio.run(reserve())
    return folder


@pytest.mark.parametrize(
    ("judge", "more", "value"),
    [(strict, (), (1.0, 1.0)), (lenient, (), (0.75, 0.75)), (by_criteria, ("--criteria", "opentable"), (1.0, 1.0))],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_judges_agree_with_the_sites_records_as_well_as_they_judge(
    judge: Callable[[Mapping[str, Any]], str],
    more: tuple[str, ...],
    value: tuple[float, float],
    reserved: Path,
    tmp_path: Path,
) -> None:
    """Accuracy and precision, by last screenshot and history (Agent Q, Fig. 5)."""
    out = tmp_path / "result.json"
    async with FaultServer(judge, {"500": 0.1}, seed=1) as server:
        options = ("--screenshots", "1", "--out", str(out), *more)
        code, printed = await against_env(reserved, "tables", judge.__name__, server.base_url, *options)
    assert code == 0, printed
    agreement = Agreement.model_validate_json(out.read_text("utf-8"))
    assert agreement.compared == 4
    assert (agreement.accuracy.value, agreement.precision.value) == value
    assert "1 screenshots" in agreement.judge
    assert ("opentable criteria" in agreement.judge) == bool(more)


async def test_tasks_of_a_file_are_listed(tmp_path: Path) -> None:
    tasks = [
        {"web_name": "Soup", "id": "Soup--0", "ques": "Cook for May 2, 2020.", "web": "http://soup.example/"},
        {"web_name": "Soup", "id": "Soup--1", "ques": "Cook.", "web": "http://soup.example/"},
    ]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, tasks)), "utf-8")
    code, listed = await bestofq("tasks", "webvoyager", "--data", str(file))
    assert code == 0, listed
    assert "train: 2 tasks" in listed
    assert "Soup--0: Cook for May 2, 2020." in listed
