"""`bestofq judge` and `bestofq webvoyager` as a user runs them."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiny_llama import save_instruct_llama
from typer.testing import CliRunner

from bestofq.agents.agent import Agent
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.cli.commands import app
from bestofq.core.decision import DECIDED, Provenance, State
from bestofq.core.errors import BestOfQError
from bestofq.core.protocols import Env
from bestofq.reports.agreement import Agreement
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.suite import synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig


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

    async def make_env() -> Env:
        return TextEnv(suite)

    def replies(state: State, n: int) -> list[str]:
        if state.task.id == tasks[0].id:
            return ["click [1]"]  # never ends
        return ['answer "There is none."'] if len(state.decisions) == 3 else shopper(state, n)

    tasks = suite.tasks("train", 12)
    agent = Agent(
        name="shopper", proposer=ScriptedProposer(replies), scorer=ConstantScorer(), selector=GreedySelector()
    )
    with Store.open(folder) as store:
        await store.begin_run("shop", {}, Provenance(version="test"))
        await run_many(tasks, make_env, agent, store=store, run="shop", options=RunOptions(step_limit=6))
        return sum(not summary.reason for summary in store.summaries(run="shop"))


def hasty(request: Mapping[str, Any]) -> str:
    """Sees no pictures; takes every purchase for a success."""
    text = request["messages"][1]["content"]
    assert isinstance(text, str)
    return json.dumps({"reason": "so", "verdict": "failure" if "There is none." in text else "success"})


async def test_a_judge_against_the_shop(tmp_path: Path) -> None:
    ended, out = await shopped(tmp_path / "runs"), tmp_path / "agreement.json"
    assert 0 < ended < 12
    async with FaultServer(hasty, {"500": 0.1}, seed=1) as server:
        command = (
            "judge",
            "--store",
            str(tmp_path / "runs"),
            "--run",
            "shop",
            "--model",
            "qwen2.5-vl-7b",
            "--base-url",
        )
        code, said = await bestofq(*command, server.base_url, "--against-env", "--dry-run")
        assert (code, server.requests) == (0, []), said
        assert f"would judge {ended} episodes of shop" in said
        code, said = await bestofq(*command, server.base_url, "--against-env", "--out", str(out))
        assert code == 0, said
        calls = server.seen["ok"]
        code, again = await bestofq(*command, server.base_url, "--against-env")
        assert code == 0, again
        assert server.seen["ok"] == calls == ended
        assert "'' is no address of an endpoint" in (await bestofq(*command, "", "--against-env", "--dry-run"))[1]
        code, refused = await bestofq(*command, server.base_url)
    found = Agreement.model_validate_json(out.read_text("utf-8"))
    assert found.compared == ended
    assert found.judge.startswith("qwen2.5-vl-7b")
    assert "Cohen's κ" in said
    assert "USD" in said
    assert "nothing new" in again
    assert code == 2
    assert "--against-env" in refused
    with Store.open(tmp_path / "runs", read_only=True) as store:
        assert {summary.judge for summary in store.summaries(run="shop")} == {""}


async def test_a_file_of_tasks_before_a_run(tmp_path: Path) -> None:
    tasks = [
        {"web_name": "Soup", "id": "Soup--0", "ques": "Cook for May 2, 2020.", "web": "http://soup.example/"},
        {"web_name": "Soup", "id": "Soup--1", "ques": "Cook.", "web": "http://soup.example/"},
    ]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, tasks)), "utf-8")
    code, said = await bestofq("tasks", "webvoyager", "--data", str(file))
    assert code == 0, said
    assert "train: 2 tasks" in said
    assert "Soup--0 names a date that is past: May 2, 2020" in said
    assert "Soup--1 names" not in said
    assert "1 of 2 tasks" in said
    assert (await bestofq("tasks", "webvoyager", "--data", str(tmp_path / "nothing.jsonl")))[0] == 2


async def test_a_local_model_judges(tmp_path: Path) -> None:
    ended, model = await shopped(tmp_path / "runs"), save_instruct_llama(tmp_path / "tiny-judge")
    local = ("judge", "--store", str(tmp_path / "runs"), "--run", "shop", "--against-env", "--base-url", "local")
    code, said = await bestofq(*local, "--model", str(model))
    assert code == 0, said
    with Store.open(tmp_path / "runs", read_only=True) as store:
        ((judge, verdicts),) = store.verdicts(run="shop").items()
    assert judge.startswith("tiny-judge, 0 screenshots")
    assert len(verdicts) == ended
    assert {verdict.outcome for verdict in verdicts.values()} <= set(DECIDED)
    code, said = await bestofq(*local, "--model", str(tmp_path / "nothing"))
    assert code == 3, said
