"""`bestofq judge --against-env` on reservations made in Chromium, by last screenshot and history (Agent Q, Fig. 5)."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from bestofq.agents.agent import Agent
from bestofq.agents.judges.chat import OPENTABLE_CRITERIA
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.browser.browser import Browser
from bestofq.cli.commands import app
from bestofq.core.actions import Write, action_text
from bestofq.core.decision import Provenance, State
from bestofq.core.observation import Task
from bestofq.core.protocols import Env
from bestofq.reports.agreement import Agreement
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv
from experiments.oracles.booking import BookingOracle

STRANGER = "Sam Elsewhere"


async def way(suite: Booking, task: Task, *, name: str | None) -> list[str]:
    """The oracle's commands from start to reservation; under another name where one is given."""
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


async def reserved(folder: Path) -> None:
    """Four reservations in Chromium, one of them for somebody else."""
    suite = Booking()
    tasks = suite.tasks("dev", 4)
    ways = {t.id: await way(suite, t, name=STRANGER if t == tasks[2] else None) for t in tasks}

    def replies(state: State, _: int) -> list[str]:
        return [ways[state.task.id][len(state.decisions)]]

    agent = Agent(name="guest", proposer=ScriptedProposer(replies), scorer=ConstantScorer(), selector=GreedySelector())
    async with serve(suite) as site, Browser.launch() as browser:

        async def make_env() -> Env:
            return LocalWebEnv(site, browser, screenshots=True)

        with Store.open(folder) as store:
            await store.begin_run("tables", {}, Provenance(version="test"))
            await run_many(
                tasks, make_env, agent, store=store, run="tables", concurrency=4, options=RunOptions(step_limit=30)
            )
            assert sorted(summary.reward for summary in store.summaries(run="tables")) == [0, 1, 1, 1]


def strict(request: Mapping[str, Any]) -> str:
    """Compares the name given with the one in the task; insists on what Fig. 5 shows."""
    text, *pictures = request["messages"][1]["content"]
    assert [part["type"] for part in pictures] == ["image_url"]
    task, _, history = text["text"].partition("What the agent did:")
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
    said = json.loads(strict(request))
    met = {**dict.fromkeys(OPENTABLE_CRITERIA, True), "user_information": said["verdict"] == "success"}
    return json.dumps({name: {"reason": said["reason"], "met": holds} for name, holds in met.items()})


async def test_judges_agree_with_the_sites_records_as_well_as_they_judge(tmp_path: Path) -> None:
    await reserved(tmp_path / "runs")
    found = {}
    for judge in (strict, lenient, by_criteria):
        out = tmp_path / f"{judge.__name__}.json"
        async with FaultServer(judge, {"500": 0.1}, seed=1) as server:
            command = ["judge", "--store", str(tmp_path / "runs"), "--run", "tables", "--model", judge.__name__]
            more = ["--base-url", server.base_url, "--against-env", "--screenshots", "1", "--out", str(out)]
            more += ["--criteria", "opentable"] if judge is by_criteria else []
            done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert "Cohen's κ" in done.output
        found[judge] = Agreement.model_validate_json(out.read_text("utf-8"))
    assert [agreement.compared for agreement in found.values()] == [4, 4, 4]
    assert "opentable criteria" in found[by_criteria].judge
    assert (found[by_criteria].accuracy.value, found[by_criteria].kappa.value) == (1.0, 1.0)
    assert (found[strict].accuracy.value, found[strict].kappa.value) == (1.0, 1.0)
    assert (found[lenient].accuracy.value, found[lenient].precision.value) == (0.75, 0.75)
