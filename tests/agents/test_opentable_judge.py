"""A reservation judged by Agent Q's four criteria (6.1), over real HTTP, from the pages of the booking site."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bestofq.agents.agent import Agent
from bestofq.agents.judges.chat import OPENTABLE_CRITERIA, ChatJudge
from bestofq.core.actions import Write, action_text
from bestofq.core.decision import Episode, Provenance, State
from bestofq.core.observation import Task
from bestofq.models.chat import ChatModel
from bestofq.rollouts.episode import record_episode
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedProposer
from bestofq_sites.booking.pages import COMPLETE
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from experiments.oracles.booking import BookingOracle

EACH = {"date_and_time": True, "party_size": True, "user_information": True, "completed": True}


@pytest.fixture(scope="module")
def suite() -> Booking:
    return Booking()


def plain(suite: Booking, task: Task) -> bool:
    """Whether the wanted time is free and nothing has to be asked."""
    goal = suite.goal(task.id)
    free = suite.tables.nearest(suite.restaurants[goal.restaurant_id], goal.plan)
    return (goal.seating is None or goal.stated) and free[:1] == [goal.time] and goal.day < suite.tables.last_day


async def played(suite: Booking, folder: Path, kind: str) -> Episode:
    """An episode that the oracle leads to the reservation, or not quite."""
    task = next(task for task in suite.tasks("dev") if plain(suite, task) and suite.goal(task.id).party < 4)
    env, oracle = TextEnv(suite), BookingOracle(suite, task.id)
    goal = oracle.goal
    other = {"wrong date": {"day": goal.day + timedelta(days=1)}, "wrong party": {"party": goal.party + 1}}
    oracle.goal = goal.model_copy(update=other.get(kind, {}))
    oracle.times = suite.tables.nearest(oracle.restaurant, oracle.goal.plan)
    assert oracle.times

    def commands(state: State, n: int) -> list[str]:
        action = oracle.advise(env, state.observation).action
        label = action_text(action, state.observation.elements)
        if COMPLETE in label and (kind == "not finished" or "Please correct" in state.observation.text):
            return ['answer "It is booked."']
        if kind == "missing contact" and isinstance(action, Write) and action.text == goal.email:
            complete = next(e.mark for e in state.observation.elements if e.name == COMPLETE)
            told = "Please correct" in state.observation.text
            return ['answer "It is booked."' if told else f"click [{complete}]"]
        return [action_text(action)]

    with Store.open(folder) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        agent = Agent(name="guest", proposer=ScriptedProposer(commands))
        return await record_episode(agent, env, task, store=store, run="r")


def reader(request: Mapping[str, Any]) -> str:
    """Compares what the task says with the page that the browser ended on."""
    text = request["messages"][1]["content"]
    task, _, rest = text.partition("\n\n")
    assert "What the agent did:\n1. " in rest
    page = rest.partition("The page it ended on:")[2]
    day, party = re.findall(r"[A-Z][a-z]+ \d+(?= 2024)", task)[0], re.findall(r"\d+ (?:people|person)", task)[0]
    at, mail, phone = (re.findall(kind, task)[0] for kind in (r"\d+:\d\d [AP]M", r"[\w.]+@\w+\.\w+", r"555-\d+"))
    met = {
        "date_and_time": day in page and at in page,
        "party_size": party in page,
        "user_information": mail in page and phone in page,
        "completed": "is confirmed" in page,
    }
    return json.dumps({name: {"reason": f"as I  read {name}", "met": holds} for name, holds in met.items()})


@pytest.mark.parametrize(
    ("kind", "unmet"),
    [
        ("right", []),
        ("wrong date", ["date_and_time"]),
        ("wrong party", ["party_size"]),
        ("missing contact", ["user_information", "completed"]),
        ("not finished", ["completed"]),
    ],
)
async def test_a_success_meets_all_four(suite: Booking, tmp_path: Path, kind: str, unmet: list[str]) -> None:
    episode = await played(suite, tmp_path, kind)
    async with FaultServer(reader) as server, ChatModel.at(server.base_url, "any") as model:
        judge = ChatJudge(model=model, screenshots=1, criteria="opentable")
        verdict = await judge.judge(episode)
    assert (verdict.outcome == "success") == (not unmet) == (episode.verdict.reward == 1)
    assert verdict.reward == float(not unmet)
    for name in OPENTABLE_CRITERIA:
        said = "not met" if name in unmet else "met"
        assert f"{name.replace('_', ' ')} {said} (as I read {name})" in verdict.reason
    assert judge.name != ChatJudge(model=model, screenshots=1).name
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == list(OPENTABLE_CRITERIA)


async def test_a_reply_that_leaves_one_out_is_repaired_or_unparseable(suite: Booking, tmp_path: Path) -> None:
    episode = await played(suite, tmp_path, "right")
    whole = {name: {"reason": "", "met": met} for name, met in EACH.items()}
    part = json.dumps({name: whole[name] for name in OPENTABLE_CRITERIA[:3]})
    replies = iter([part, json.dumps(whole), part, '{"completed": true}'])
    async with FaultServer(lambda _: next(replies)) as server, ChatModel.at(server.base_url, "any") as model:
        judge = ChatJudge(model=model, criteria="opentable")
        repaired, given_up = await judge.judge(episode), await judge.judge(episode)
    assert (repaired.outcome, repaired.usage[0].calls) == ("success", 2)
    assert (given_up.outcome, given_up.reward) == ("unparseable", 0.0)
    assert '"completed" must be' in server.requests[1]["messages"][3]["content"]
