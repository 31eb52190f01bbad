"""What every proposer promises (`core.protocols.Proposer`)."""

from collections.abc import AsyncIterator

import pytest
from contract_state import PAGE, STATE, commands, composite, endpoint, reply

from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.proposers.adaptive import AdaptiveProposer
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.core.actions import Click
from bestofq.core.protocols import Proposer
from bestofq.testing.scripted import ScriptedModel, ScriptedProposer, ScriptedScorer

ACTIONS = [{"thought": "", "note": "", "action": {"type": "click", "element": mark}} for mark in (1, 2, 3, 1)]


@pytest.fixture(
    params=["sampling", "composite", "beams", "chat", "votes", "composite chat", "scripted", "adaptive", "repropose"]
)
async def proposer(request: pytest.FixtureRequest) -> AsyncIterator[Proposer]:
    match request.param:
        case "sampling":
            yield SamplingProposer(ScriptedModel(commands))
        case "composite":
            yield SamplingProposer(ScriptedModel(composite), dialect=COMPOSITE)
        case "beams":
            yield SamplingProposer(ScriptedModel(commands), beams=4)
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
        case "adaptive":
            low = ScriptedScorer(lambda state, candidates: [0.0] * len(candidates))
            yield AdaptiveProposer(SamplingProposer(ScriptedModel(commands)), low, enough=0.5)
        case "repropose":
            high = ScriptedScorer(lambda state, candidates: [1.0] * len(candidates))
            yield AdaptiveProposer(SamplingProposer(ScriptedModel(commands)), high, again=2)


@pytest.mark.parametrize("n", [1, 2, 3])
async def test_it_offers_one_to_n_distinct_actions(proposer: Proposer, n: int) -> None:
    candidates = (await proposer.propose(STATE, n)).candidates
    assert 1 <= len(candidates) <= n
    assert len({candidate.action.model_dump_json() for candidate in candidates}) == len(candidates)


async def test_the_first_is_the_greedy_choice_whatever_is_drawn_besides(proposer: Proposer) -> None:
    other = STATE.model_copy(update={"task": STATE.task.model_copy(update={"seed": 7})})
    first = {(await proposer.propose(state, n)).candidates[0].action for state in (STATE, other) for n in (1, 3)}
    assert len(first) == 1


async def test_the_same_state_gives_the_same_candidates(proposer: Proposer) -> None:
    one, two = [await proposer.propose(STATE, 3) for _ in range(2)]
    assert one.candidates == two.candidates


async def test_elements_are_those_of_the_page_and_labels_name_them(proposer: Proposer) -> None:
    for candidate in (await proposer.propose(STATE, 3)).candidates:
        assert isinstance(candidate.action, Click)
        named = next(element.name for element in PAGE.elements if element.mark == candidate.action.mark)
        assert named in candidate.label


async def test_it_counts_what_it_used(proposer: Proposer) -> None:
    usage = (await proposer.propose(STATE, 3)).usage
    assert {used.role for used in usage} - {"critic"} == {"proposer"}  # a scorer that it asks is counted apart
    assert all(used.calls >= 1 for used in usage)
