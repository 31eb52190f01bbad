"""What every proposer promises (`core.protocols.Proposer`)."""

from collections.abc import AsyncIterator

import pytest
from contract_state import commands, composite, endpoint, reply

from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.proposers import ChatProposer, SamplingProposer
from bestofq.core.actions import Click
from bestofq.core.protocols import Proposer
from bestofq.testing.contracts import PAGE, STATE, check_proposer
from bestofq.testing.scripted import ScriptedModel, ScriptedProposer

ACTIONS = [{"thought": "", "note": "", "action": {"type": "click", "element": mark}} for mark in (1, 2, 3, 1)]


@pytest.fixture(params=["sampling", "composite", "chat", "votes", "composite chat", "scripted"])
async def proposer(request: pytest.FixtureRequest) -> AsyncIterator[Proposer]:
    match request.param:
        case "sampling":
            yield SamplingProposer(ScriptedModel(commands))
        case "composite":
            yield SamplingProposer(ScriptedModel(composite), dialect=COMPOSITE)
        case "chat":
            async with endpoint({"candidates": ACTIONS}) as model:
                yield ChatProposer(model)
        case "votes":
            async with endpoint({"candidates": ACTIONS[:1]}) as model:
                yield ChatProposer(model, votes=True)
        case "composite chat":
            async with endpoint(f"PLAN: look\n{reply(2)}") as model:
                yield ChatProposer(model, dialect=COMPOSITE)
        case "scripted":
            yield ScriptedProposer(lambda state, n: [" so\nclick [1]", " so\nclick [2]", " so\nclick [3]"])


async def test_it_keeps_to_the_contract(proposer: Proposer) -> None:
    await check_proposer(proposer)


async def test_elements_are_those_of_the_page_and_labels_name_them(proposer: Proposer) -> None:
    for candidate in (await proposer.propose(STATE, 3)).candidates:
        assert isinstance(candidate.action, Click)
        named = next(element.name for element in PAGE.elements if element.mark == candidate.action.mark)
        assert named in candidate.label
