"""A process reward model by checklist, over real HTTP on loopback."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Observation, Task
from bestofq.core.protocols import Scorer
from bestofq.testing.fault_server import FaultServer

STATE = State(
    task=Task(id="t", suite="s", goal="buy a blue mug", start_url="u"),
    observation=Observation(url="u", title="t", text="x", elements=()),
)
ITEMS = ["A blue mug is found", "It is bought"]
VERDICTS = {"open red mug": ["no", "no"], "open blue mug": ["Yes", "in progress"], "next page": ["in progress", "no"]}
CANDIDATES = [Candidate(action=Click(mark=i), label=label) for i, label in enumerate(VERDICTS, 1)]


def judging(verdicts: Mapping[str, object], items: object = ITEMS) -> Callable[[Mapping[str, Any]], str]:
    """Writes the checklist, and gives the verdicts on the candidate that is to be judged."""

    def reply(request: Mapping[str, Any]) -> str:
        if request["response_format"]["json_schema"]["name"] == "checklist":
            return json.dumps({"items": items})
        asked = request["messages"][1]["content"]
        (label,) = (label for label in verdicts if f": {label}\n" in asked)
        return json.dumps({"reason": "so", "verdicts": verdicts[label]})

    return reply


@asynccontextmanager
async def checklist(server: FaultServer) -> AsyncIterator[Scorer]:
    """The agent's scorer, where the pocket model proposes and an endpoint judges."""
    judge = {"model": "prm", "base_url": server.base_url}
    models = Models(BestOfQSettings.model_validate({"checklist_chat": judge}))
    yield make_agent("checklist", models).scorer
    await models.aclose()


async def test_a_candidate_is_worth_the_mean_over_a_checklist_that_is_written_once() -> None:
    async with FaultServer(judging(VERDICTS)) as server, checklist(server) as scorer:
        first, second = await scorer.score(STATE, CANDIDATES), await scorer.score(STATE, CANDIDATES)
        other = STATE.model_copy(update={"task": STATE.task.model_copy(update={"goal": "buy a lamp"})})
        third = await scorer.score(other, CANDIDATES)
    assert first.values == second.values == (0.0, 0.75, 0.25)
    assert [[(used.role, used.calls) for used in scores.usage] for scores in (first, second, third)] == [
        [("critic", 4)],
        [("critic", 3)],
        [("critic", 4)],
    ]
    judged = [r["messages"][1]["content"] for r in server.requests if "2. It is bought" in r["messages"][1]["content"]]
    assert len(judged) == 9
    assert STATE.task.goal in judged[0]


async def test_one_candidate_costs_nothing() -> None:
    async with FaultServer(judging(VERDICTS)) as server, checklist(server) as scorer:
        assert (await scorer.score(STATE, CANDIDATES[:1])).usage == ()
    assert server.requests == []


@pytest.mark.parametrize("said", [["yes"], ["yes", "perhaps"], "yes", None])
async def test_verdicts_that_do_not_fit_the_items_get_a_repair_turn_and_are_unclear_then(said: object) -> None:
    async with FaultServer(judging({**VERDICTS, "open red mug": said})) as server, checklist(server) as scorer:
        scores = await scorer.score(STATE, CANDIDATES)
    assert scores.values == (0.5, 0.75, 0.25)
    (usage,) = scores.usage
    assert (usage.calls, usage.unusable) == (5, 1)


@pytest.mark.parametrize("items", [[], ["ok", " "], "all", [str(i) for i in range(11)]])
async def test_without_a_checklist_the_goal_is_its_only_item(items: object) -> None:
    verdicts = {label: said[:1] for label, said in VERDICTS.items()}
    async with FaultServer(judging(verdicts, items)) as server, checklist(server) as scorer:
        scores = await scorer.score(STATE, CANDIDATES)
    assert scores.values == (0.0, 1.0, 0.5)
    (usage,) = scores.usage
    assert (usage.calls, usage.unusable) == (5, 1)


def test_a_model_that_knows_no_instructions_writes_no_checklist() -> None:
    with pytest.raises(ConfigError, match=r"pocket writes no checklists: .* checklist_chat\.model"):
        make_agent("checklist", Models(BestOfQSettings()))
