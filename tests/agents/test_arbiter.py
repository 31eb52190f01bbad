"""A vote decides, and an arbiter where the vote is contested."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bestofq.agents.scorers.arbiter import ArbiterScorer, Contested, Uncertain, no_majority, vote_shares
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import AgentKind, BestOfQSettings
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, State
from bestofq.core.observation import Element, Observation, Task
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedScorer

LINKS = tuple(Element(mark=mark, role="link", name=f"link {mark}") for mark in (1, 2, 3))
STATE = State(
    task=Task(id="t", suite="s", goal="g", start_url="u"),
    observation=Observation(url="u", title="t", text="x", elements=LINKS),
)


def voted(*votes: int | None) -> list[Candidate]:
    return [Candidate(action=Click(mark=i), label=f"link {i}", votes=n) for i, n in enumerate(votes, 1)]


def last(state: State, candidates: Sequence[Candidate]) -> Sequence[float]:
    return [float(i == len(candidates)) for i in range(1, len(candidates) + 1)]


def test_shares_are_of_all_votes_and_a_candidate_without_a_count_has_one() -> None:
    assert vote_shares(voted(4, None, 3)).tolist() == pytest.approx([1 / 2, 1 / 8, 3 / 8])


@pytest.mark.parametrize(
    ("contested", "votes", "asked"),
    [
        (no_majority, (3, 3), True),
        (no_majority, (4, 3), False),
        (no_majority, (3, 2, 2), True),
        (Uncertain("entropy", 0.69), (2, 2), True),  # ln 2 = 0.6931
        (Uncertain("entropy", 0.70), (2, 2), False),
        (Uncertain("entropy", 1.03), (2, 1, 1), True),  # 1.5 ln 2 = 1.0397
        (Uncertain("margin", 0.74), (2, 1, 1), True),  # 1 - (1/2 - 1/4)
        (Uncertain("margin", 0.76), (1, 2, 1), False),
    ],
)
async def test_the_arbiter_decides_contested_votes_and_no_other(
    contested: Contested, votes: tuple[int, ...], asked: bool
) -> None:
    candidates = voted(*votes)
    scores = await ArbiterScorer(ScriptedScorer(last), contested).score(STATE, candidates)
    assert scores.values == pytest.approx(last(STATE, candidates) if asked else vote_shares(candidates).tolist())
    assert [used.calls for used in scores.usage] == ([1] if asked else [])


async def test_an_arbiter_that_prefers_none_leaves_it_to_the_vote_and_is_counted() -> None:
    undecided = ScriptedScorer(lambda state, candidates: [0.5] * len(candidates))
    scores = await ArbiterScorer(undecided, no_majority).score(STATE, voted(1, 2, 2))
    assert scores.values == pytest.approx([0.2, 0.4, 0.4])
    assert [used.calls for used in scores.usage] == [1]


@pytest.mark.parametrize(
    ("agent", "marks", "picks"),
    [("arbiter", (1, 2, 2), 0), ("arbiter", (1, 2, 3), 1), ("catts", (2, 2, 2), 0), ("catts", (1, 2, 3), 1)],
)
async def test_at_an_endpoint_replies_are_counted_and_the_model_picks_where_they_differ(
    agent: AgentKind, marks: tuple[int, ...], picks: int
) -> None:
    drawn = iter(marks)

    def reply(request: Mapping[str, Any]) -> str:
        if "best" in request["response_format"]["json_schema"]["schema"]["properties"]:
            return json.dumps({"reasoning": "so", "best": 3})
        action = {"type": "click", "element": next(drawn)}
        return json.dumps({"candidates": [{"thought": "", "note": "", "action": action}]})

    async with FaultServer(reply) as server:
        models = Models(BestOfQSettings.model_validate({"chat": {"model": "any", "base_url": server.base_url}}))
        decision = await make_agent(agent, models).decide(STATE, np.random.default_rng(0))
        await models.aclose()
    action = decision.candidate.action
    assert isinstance(action, Click)
    assert action.mark == (3 if picks else 2)
    assert {used.role: used.calls for used in decision.usage}.get("critic", 0) == picks
