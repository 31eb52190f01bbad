"""A file of tasks end to end: stand-ins under the sites' own names, a judge over HTTP, the table by domain."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.agents.agent import Agent
from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.selectors import GreedySelector
from bestofq.browser.browser import Browser
from bestofq.browser.config import BrowserConfig
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Provenance, State
from bestofq.core.protocols import Env
from bestofq.envs.serving import serve_app
from bestofq.envs.web import WebEnv
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.suite import RUNS, STEP_LIMIT, WebVoyager
from bestofq.models.chat import ChatModel
from bestofq.recipes.judging import episodes_to_judge, judge_run
from bestofq.reports.success import ALL, domain_results
from bestofq.rollouts.runner import RunOptions, run_many
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer

SITES = {"Allrecipes": "www.allrecipes.com", "ArXiv": "arxiv.org", "ESPN": "www.espn.com"}
TASKS = {
    "Allrecipes--0": "Which soup is rated best?",
    "Allrecipes--1": "Which soup is rated worst?",
    "ArXiv--0": "How many papers are new today?",
    "ESPN--0": "Who won?",
    "ESPN--1": "Which of the papers of arXiv is about sport?",
}
ANSWERS = {"Which soup is rated best?": "Leek soup", "How many papers are new today?": "Seventeen"}


async def page(request: Request) -> HTMLResponse:
    match request.headers["host"], request.url.path:
        case "www.allrecipes.com", "/":
            return HTMLResponse("<title>Recipes</title><a href=/soups>Soups</a>")
        case "www.allrecipes.com", "/soups":
            return HTMLResponse("<title>Soups</title><p>Leek soup, 4.9 stars</p>")
        case "arxiv.org", _:
            return HTMLResponse("<title>arXiv</title><p>Seventeen new papers</p>")
        case "www.espn.com", _:
            return HTMLResponse("<title>Just a moment</title><p>Verify that you are human</p>")
        case _:
            return HTMLResponse("", 404)


def replies(state: State, n: int) -> list[str]:
    """Looks into the soups; tries to leave for another site; answers, on ESPN that there is no way in."""
    step, seen = len(state.decisions), state.observation
    if state.task.id == "ESPN--1" and step < 2:
        return ["goto http://arxiv.org/"]
    if seen.title == "Recipes":
        return ["click [1]"]
    return [f'answer "{ANSWERS.get(state.task.goal, "I cannot tell")}"']


def verdict(request: Mapping[str, Any]) -> str:
    """Decides by the text of the request, and only where a picture came with it."""
    text, *pictures = request["messages"][1]["content"]
    said = text["text"]
    if not pictures or not pictures[-1]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/"):
        return "I see nothing."
    if "espn" in said:
        return json.dumps({"reason": "a bot check", "verdict": "impossible" if "arXiv" in said else "blocked"})
    right = any(goal in said and answer in said for goal, answer in ANSWERS.items())
    return json.dumps({"reason": "as shown", "verdict": "success" if right else "failure"})


def file_of(folder: Path) -> Path:
    names = {task: task.partition("--")[0] for task in TASKS}
    lines = [
        {"web_name": names[task], "id": task, "ques": goal, "web": f"http://{SITES[names[task]]}/"}
        for task, goal in TASKS.items()
    ]
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return file


def chat(server: FaultServer) -> ChatModel:
    return ChatModel.at(server.base_url, "any", attempts=1)


def rules_to(root: str) -> str:
    """The switch of Chromium that brings the sites' names to the stand-ins, and no other name anywhere."""
    port = root.rpartition(":")[2]
    hosts = (f"MAP {host} 127.0.0.1:{port}" for host in SITES.values())
    return f"--host-resolver-rules={', '.join([*hosts, 'MAP * ~NOTFOUND', 'EXCLUDE 127.0.0.1'])}"


async def test_three_domains_three_runs_one_table(tmp_path: Path) -> None:
    suite = WebVoyager(WebVoyagerSettings(data=file_of(tmp_path)))
    agent = Agent(
        name="prompting",
        proposer=ScriptedProposer(replies),
        scorer=ConstantScorer(),
        selector=GreedySelector(),
        n_candidates=1,
    )
    faults = ("ok",) * 7 + ("500",)  # the judge is away for one episode
    async with (
        serve_app(Starlette(routes=[Route("/{path:path}", page)])) as root,
        Browser.launch(BrowserConfig(arguments=(rules_to(root),))) as browser,
        FaultServer(verdict, script=faults) as server,
        chat(server) as model,
    ):

        async def make_env() -> Env:
            return WebEnv(browser, screenshots=True)

        with Store.open(tmp_path / "runs") as store:
            await store.begin_run("eval", {}, Provenance(version="test"))
            judge = ChatJudge(model=model)
            done = await run_many(
                suite.list_tasks(),
                make_env,
                agent,
                store=store,
                run="eval",
                repeats=RUNS,
                concurrency=4,
                options=RunOptions(step_limit=STEP_LIMIT, judge=judge),
            )
            assert len(done) == len(TASKS) * RUNS
            assert sum(episode.outcome == "unjudged" for episode in done) == 1
            row = domain_results(store).rows[-1]
            assert (row.episodes, row.outcomes["unjudged"]) == (len(done) - 1, 1)
            todo = episodes_to_judge(store, "eval", judge)
            assert (
                await judge_run(Models(BestOfQSettings()), store, todo, lambda _: judge)
            ).total() == 1  # from the stored pictures
            table = domain_results(store)
            episodes = {episode.task.id: episode for episode in store.episodes()}
    for host in SITES.values():
        assert any(episode.steps[0].observation.url == f"http://{host}/" for episode in episodes.values())
    refused = episodes["ESPN--1"].steps[1].observation
    assert refused.error is not None
    assert "arxiv.org is not among the task's allowed hosts" in refused.error
    assert refused.url == "http://www.espn.com/"
    rates = {row.values[0]: (row.tasks, row.success, row.outcomes) for row in table.rows}
    assert rates.keys() == {*SITES, ALL}
    expected = {"Allrecipes": (2, 0.5), "ArXiv": (1, 1.0), "ESPN": (2, 0.0), ALL: (5, 0.4)}
    for domain, (tasks, mean) in expected.items():
        count, success, _ = rates[domain]
        assert (count, success.mean, success.error, success.runs) == (
            tasks,
            pytest.approx(mean),
            pytest.approx(0.0),
            RUNS,
        )
    assert rates[ALL][2] == {"success": 6, "failure": 3, "blocked": 3, "impossible": 3}
    assert (table.judging.calls, table.judging.tokens_in, table.judging.usd) == (15, 1500, None)
