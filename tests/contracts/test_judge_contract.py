"""What every judge promises (`core.protocols.Judge`)."""

from collections.abc import AsyncIterator
from typing import get_args

import pytest
from contract_state import CANDIDATES, PAGE, STATE, endpoint

from bestofq.agents.judges.chat import OPENTABLE_CRITERIA, ChatJudge
from bestofq.core.decision import Decision, Episode, Outcome, Provenance, Step, Verdict
from bestofq.core.protocols import Judge
from bestofq.recipes.run_goal import UserJudge
from bestofq.testing.scripted import ScriptedJudge

EPISODE = Episode(
    id="e",
    run="r",
    agent="a",
    task=STATE.task,
    steps=(Step(index=0, observation=PAGE, decision=Decision(candidates=CANDIDATES, scores=(0, 0, 0), chosen=1)),),
    final=PAGE,
    verdict=Verdict(reward=0.0, outcome="unjudged"),
    provenance=Provenance(version="test"),
)


async def yes(episode: Episode) -> bool | None:
    return True


async def nobody(episode: Episode) -> bool | None:
    return None


@pytest.fixture(params=["chat", "chat by criteria", "chat that cannot be read", "scripted", "user", "no user"])
async def judge(request: pytest.FixtureRequest) -> AsyncIterator[Judge]:
    match request.param:
        case "chat":
            async with endpoint({"reason": "it is there", "verdict": "success"}) as model:
                yield ChatJudge(model=model)
        case "chat by criteria":
            async with endpoint({name: {"reason": "so", "met": True} for name in OPENTABLE_CRITERIA}) as model:
                yield ChatJudge(model=model, criteria="opentable")
        case "chat that cannot be read":
            async with endpoint("well") as model:
                yield ChatJudge(model=model)
        case "scripted":
            yield ScriptedJudge(lambda episode: "failure")
        case "user":
            yield UserJudge(yes)
        case "no user":
            yield UserJudge(nobody)


async def test_its_verdict_is_one_of_the_outcomes_with_a_reward_that_fits(judge: Judge) -> None:
    verdict = await judge.judge(EPISODE)
    assert verdict.outcome in get_args(Outcome)
    assert (verdict.reward == 1.0) == (verdict.outcome == "success")


async def test_it_has_a_name_and_signs_with_no_other(judge: Judge) -> None:
    assert judge.name
    assert (await judge.judge(EPISODE)).judge in ("", judge.name)


async def test_what_it_used_is_a_judge_s(judge: Judge) -> None:
    assert {used.role for used in (await judge.judge(EPISODE)).usage} <= {"judge"}
