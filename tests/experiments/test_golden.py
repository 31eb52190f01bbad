"""The golden step looked for by a chat endpoint, over real HTTP on loopback."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Decision, Provenance, Step, Verdict
from bestofq.core.observation import Observation, Task
from bestofq.models.chat import ChatModel
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer
from experiments.golden import golden_findings
from experiments.golden_matcher import GoldenMatcher


def step(index: int, page: str, *labels: str, chosen: int = 0) -> Step:
    candidates = tuple(
        Candidate(action=Click(mark=n + 1), label=label, thought=f"why {label}", note=f"note {label}")
        for n, label in enumerate(labels)
    )
    seen = Observation(url=f"http://soup.example/{page}", title="Soups", text=page, elements=())
    decision = Decision(candidates=candidates, scores=(0.0,) * len(labels), chosen=chosen)
    return Step(index=index, observation=seen, decision=decision)


async def record(store: Store, agent: str, task: str, outcome: str, *steps: Step, run: str = "eval") -> str:
    what = Task(id=task, suite="soups", goal=f"Find a soup for {task}", start_url="http://soup.example/")
    episode = await store.begin_episode(run, agent, what, 0, Provenance(version="test"))
    for one in steps:
        await store.append_step(episode, one)
    verdict = Verdict.model_validate({"reward": float(outcome == "success"), "outcome": outcome})
    await store.finish_episode(episode, verdict, None)
    return episode


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A strong agent solves one task in three steps; a weak one fails at it, and at one that nobody solved."""
    with Store.open(tmp_path / "store") as store:
        await store.begin_run("eval", {}, Provenance(version="test"))
        await record(store, "slow", "one", "success", *(step(n, f"s{n}", "wander") for n in range(5)))
        strong = step(0, "home", "search soups"), step(1, "list", "open leek soup"), step(2, "leek", "save recipe")
        await record(store, "strong", "one", "success", *strong)
        weak = (
            step(0, "home", "type soups into search", "open menu", chosen=1),  # meant, not taken
            step(1, "menu", "search soups", "back"),  # another page: the first step not done yet; says the same, taken
            step(2, "results", "open tomato soup", "open beet soup"),  # open leek soup is due: not proposed
            step(3, "leek", "store this recipe", "print"),  # the page of the last golden step: meant and taken
            step(4, "end", "anything"),  # nothing is due any more
        )
        await record(store, "weak", "one", "failure", *weak)
        await record(store, "weak", "two", "failure", step(0, "home", "search"))
        await record(store, "weak", "three", "success", step(0, "home", "search"))
        yield store


def model(server: FaultServer) -> ChatModel:
    return ChatModel.at(server.base_url, "gpt-4.1", attempts=2)


def judge(request: Mapping[str, Any]) -> str:
    """What a model that understands would say."""
    asked = request["messages"][1]["content"]
    means = {"search soups": "type soups into search", "save recipe": "store this recipe"}
    for golden, same in means.items():
        if f"right:\n   {golden}" in asked and f"0. {same}" in asked:
            return json.dumps({"rationale": "alike", "contained": True, "matched_index": 0})
    return json.dumps({"rationale": "nothing like it", "contained": False, "matched_index": None})


async def test_steps_are_held_against_the_golden_one_that_is_due(store: Store) -> None:
    async with FaultServer(judge) as server, model(server) as chat:
        found = await golden_findings(store, GoldenMatcher(model=chat), run="eval", agent="weak")
    assert (found.episodes, found.without_golden, found.unread) == (1, 1, 0)
    assert [(s.step, s.golden, s.good, s.chosen) for s in found.steps] == [
        (0, "search soups", (True, False), 1),
        (1, "search soups", (True, False), 0),
        (2, "open leek soup", (False, False), 0),
        (3, "save recipe", (True, False), 0),
    ]
    assert len(server.requests) == 3  # what says the same is not asked
    asked = server.requests[0]
    assert "Find a soup for one" in asked["messages"][1]["content"]
    assert "why open menu" in asked["messages"][1]["content"]
    assert "note search soups" in asked["messages"][1]["content"]
    assert asked["temperature"] == 0.0
    assert [used.role for used in found.usage] == ["judge"] * 3


@pytest.mark.parametrize("bad", ['{"contained": true, "matched_index": 7}', '{"contained": "no"}', "no idea", "{}"])
async def test_a_reply_that_cannot_be_read_is_repaired_once_then_left_out(store: Store, bad: str) -> None:
    replies = iter([bad, '{"rationale": "r", "contained": false, "matched_index": null}', bad, bad])

    def reply(request: Mapping[str, Any]) -> str:
        return next(replies, judge(request))

    async with FaultServer(reply) as server, model(server) as chat:
        found = await golden_findings(store, GoldenMatcher(model=chat), run="eval", agent="weak")
    assert found.unread == 1
    assert [s.step for s in found.steps] == [0, 1, 3]  # of the third step nothing is known
    assert len(server.requests[1]["messages"]) == 4  # the reply and what was wrong with it
