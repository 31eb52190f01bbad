"""What every scorer promises (`core.protocols.Scorer`)."""

from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from contract_state import endpoint

from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.constant import ConstantScorer, VoteScorer
from bestofq.agents.scorers.critics import ChatPickerScorer, ChatVerifierScorer, FeedbackScorer, PickerScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer
from bestofq.agents.scorers.memory import MemoryScorer, WordScorer
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.language import Request
from bestofq.core.protocols import Scorer
from bestofq.core.transitions import Floats
from bestofq.learning.memory import Memory
from bestofq.testing.contracts import check_scorer
from bestofq.testing.scripted import ScriptedModel, ScriptedScorer


class Lengths:
    """An embedder whose vector is the length of the text."""

    spec = EmbedSpec(model="lengths", revision="1", dim=1)

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.array([[len(item.text)] for item in items], dtype=np.float32), len(items)


class Sum:
    """Q is the sum of its three vectors, V that of two."""

    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        return (state[:, None] + action + task[:, None])[..., 0]

    def v(self, state: Floats, task: Floats) -> Floats:
        return (state + task)[..., 0]

    def prepare(self, state: Floats, task: Floats) -> None: ...


def second(request: Request) -> Sequence[str]:
    return [" 2"]


@pytest.fixture(
    params=[
        "constant",
        "vote",
        "q",
        "prior",
        "memory",
        "words",
        "picker",
        "picker that fails",
        "chat picker",
        "chat verifier",
        "feedback",
        "scripted",
        "own",
    ]
)
async def scorer(request: pytest.FixtureRequest) -> AsyncIterator[Scorer]:
    q = QScorer(Sum(), Lengths(), EmbeddingTexts(), checkpoint="q1")
    match request.param:
        case "constant":
            yield ConstantScorer()
        case "vote":
            yield VoteScorer()
        case "q":
            yield q
        case "prior":
            yield PriorScorer(q, beta=0.5)
        case "memory":
            yield MemoryScorer(Memory({}, 0.5, train_n=3))
        case "words":
            yield WordScorer()
        case "picker":
            yield PickerScorer(ScriptedModel(second))
        case "picker that fails":
            yield PickerScorer(ScriptedModel(lambda request: ["neither"]))
        case "chat picker":
            async with endpoint({"reasoning": "blue", "best": 2}) as model:
                yield ChatPickerScorer(model)
        case "chat verifier":
            async with endpoint({"reason": "blue", "verdict": "right"}) as model:
                yield ChatVerifierScorer(model)
        case "feedback":
            yield FeedbackScorer(PickerScorer(ScriptedModel(second)))
        case "scripted":
            yield ScriptedScorer(lambda state, candidates: range(len(candidates)))
        case "own":
            settings = BestOfQSettings(scorer="examples.own_scorer:make_scorer")
            yield make_agent("own", Models(settings)).scorer


async def test_it_keeps_to_the_contract(scorer: Scorer) -> None:
    await check_scorer(scorer)
