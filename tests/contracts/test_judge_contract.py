"""What every judge promises (`core.protocols.Judge`)."""

from collections.abc import AsyncIterator

import pytest
from contract_state import endpoint

from bestofq.agents.judges.chat import OPENTABLE_CRITERIA, ChatJudge
from bestofq.core.decision import Episode
from bestofq.core.protocols import Judge
from bestofq.recipes.run_goal import UserJudge
from bestofq.testing.contracts import check_judge
from bestofq.testing.scripted import ScriptedJudge


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


async def test_it_keeps_to_the_contract(judge: Judge) -> None:
    await check_judge(judge)
