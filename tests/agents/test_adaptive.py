"""Q says how many candidates are drawn, and what was not drawn is not paid for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from bestofq.agents.proposers.adaptive import AdaptiveProposer
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.core.actions import Click
from bestofq.core.decision import Candidate, Proposal, Scores, State
from bestofq.core.errors import ReplyError
from bestofq.core.language import Request
from bestofq.core.observation import Element, Observation, Task
from bestofq.core.usage import Usage
from bestofq.models.chat import ChatModel
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedModel

LINKS = tuple(Element(mark=mark, role="link", name=f"link {mark}") for mark in range(1, 6))
STATE = State(
    task=Task(id="t", suite="s", goal="g", start_url="u"),
    observation=Observation(url="u", title="t", text="x", elements=LINKS),
    seed=7,
)


@dataclass(frozen=True)
class ByMark:
    """Q(s, a) by the mark that is clicked; V(s) is 0.5."""

    values: Sequence[float]

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores:
        marks = marks_of(candidates)
        usage = Usage(role="embedder", tokens_in=10 * len(marks), calls=1)
        return Scores(values=tuple(self.values[mark - 1] for mark in marks), state_value=0.5, usage=(usage,))


@dataclass
class Clicks:
    """A model that clicks on 1 first; then on 2 and 3, or by another seed than the state's on 4 and 5."""

    greedy: str = "click [1]"
    asked: list[Request] = field(default_factory=list)

    def proposer(self) -> SamplingProposer:
        return SamplingProposer(ScriptedModel(self._reply), samples_per_candidate=1)

    def _reply(self, request: Request) -> Sequence[str]:
        self.asked.append(request)
        drawn = (2, 3) if request.seed == STATE.step_seed else (4, 5)
        return [f" so\n{self.greedy}", *(f" so\nclick [{mark}]" for mark in drawn)]


def marks_of(candidates: Sequence[Candidate]) -> list[int]:
    return [c.action.mark for c in candidates if isinstance(c.action, Click) and c.action.mark is not None]


def tokens(proposal: Proposal, role: str) -> int:
    return sum(used.tokens_in + used.tokens_out for used in proposal.usage if used.role == role)


async def test_a_greedy_candidate_that_is_good_enough_is_all_that_is_drawn_and_paid() -> None:
    model, whole = Clicks(), Clicks()
    adaptive = AdaptiveProposer(model.proposer(), ByMark([0.7, 0.9, 0.1]), enough=0.1)
    proposal, full = await adaptive.propose(STATE, 3), await whole.proposer().propose(STATE, 3)
    assert (marks_of(proposal.candidates), [request.n for request in model.asked]) == ([1], [1])
    assert tokens(proposal, "proposer") < tokens(full, "proposer")
    assert tokens(proposal, "embedder") == 10


async def test_otherwise_n_are_asked_for_with_the_same_draws_and_both_questions_are_counted() -> None:
    model, whole = Clicks(), Clicks()
    adaptive = AdaptiveProposer(model.proposer(), ByMark([0.59, 0.9, 0.1]), enough=0.1)
    proposal, full = await adaptive.propose(STATE, 3), await whole.proposer().propose(STATE, 3)
    assert marks_of(proposal.candidates) == marks_of(full.candidates) == [1, 2, 3]
    assert [request.n for request in model.asked] == [1, 3]
    assert {used.role: used.calls for used in proposal.usage} == {"proposer": 2, "embedder": 1}


async def test_one_candidate_is_not_asked_for_twice() -> None:
    model = Clicks()
    await AdaptiveProposer(model.proposer(), ByMark([0.0]), enough=0.1).propose(STATE, 1)
    assert [request.n for request in model.asked] == [1]


@pytest.mark.parametrize(
    ("values", "again", "marks", "questions"),
    [
        ((0.1, 0.5, 0.1, 0.0, 0.0), 2, [1, 2, 3], 1),  # one is as good as V says
        ((0.1, 0.2, 0.3, 0.6, 0.1), 2, [1, 2, 3, 4, 5], 2),  # the second round has one
        ((0.1, 0.2, 0.3, 0.4, 0.1), 2, [1, 2, 3, 4, 5], 3),  # never: what was offered before is not offered twice
        ((0.1, 0.2, 0.3, 0.4, 0.1), 1, [1, 2, 3, 4, 5], 2),
    ],
)
async def test_more_are_drawn_while_all_are_low(
    values: Sequence[float], again: int, marks: list[int], questions: int
) -> None:
    model = Clicks()
    proposal = await AdaptiveProposer(model.proposer(), ByMark(values), again=again).propose(STATE, 3)
    assert marks_of(proposal.candidates) == marks
    assert len({request.seed for request in model.asked}) == len(model.asked) == questions
    assert {used.role: used.calls for used in proposal.usage}["proposer"] == questions


async def test_a_greedy_reply_that_is_no_action_is_paid_for_and_the_others_are_asked() -> None:
    model = Clicks(greedy="nonsense")
    proposal = await AdaptiveProposer(model.proposer(), ByMark([0.0] * 5), enough=0.1).propose(STATE, 3)
    assert marks_of(proposal.candidates) == [2, 3]
    assert {used.role: used.calls for used in proposal.usage} == {"proposer": 2}


@pytest.mark.parametrize(("failing", "labels"), [(1, ["click link link 1", "click link link 2"]), (2, ["wait 1"])])
async def test_a_no_op_is_offered_only_where_all_rounds_fail(failing: int, labels: list[str]) -> None:
    asked: list[object] = []

    def reply(request: object) -> str:
        asked.append(request)
        listed = [{"action": {"type": "click", "element": mark}} for mark in (1, 2)]
        return "Sorry" if len(asked) <= 3 * failing else json.dumps({"candidates": listed})

    async with FaultServer(reply) as server:
        model = ChatModel.at(server.base_url, "any")
        proposal = await AdaptiveProposer(ChatProposer(model), ByMark([0.0] * 5), enough=0.1).propose(STATE, 3)
        await model.close()
    assert [candidate.label for candidate in proposal.candidates] == labels
    assert [(used.role, used.calls) for used in proposal.usage] == [("proposer", len(asked))]


async def test_where_no_reply_is_an_action_the_error_keeps_replies_and_all_that_was_used() -> None:
    proposer = SamplingProposer(ScriptedModel(lambda request: ["nonsense"]))
    with pytest.raises(ReplyError) as caught:
        await AdaptiveProposer(proposer, ByMark([]), enough=0.1).propose(STATE, 3)
    assert caught.value.replies == ("nonsense",)
    assert [(used.role, used.calls) for used in caught.value.usage] == [("proposer", 2)]
