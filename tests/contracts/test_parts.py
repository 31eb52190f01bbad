"""What every proposer, scorer, judge, embedder and language model promises (`core.protocols`).

A part that breaks a promise fails its check, with a sentence that says which.
"""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scripted_values import Lengths, Sum
from tiny_vision import save_tiny_vision

from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.judges.chat import OPENTABLE_CRITERIA, ChatJudge
from bestofq.agents.prompting import Criteria
from bestofq.agents.proposers import ChatProposer, SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer, VoteScorer
from bestofq.agents.scorers.critics import ChatPickerScorer, ChatVerifierScorer, FeedbackScorer, PickerScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer
from bestofq.agents.scorers.memory import MemoryScorer, WordScorer
from bestofq.config.agents import make_agent
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.actions import Click
from bestofq.core.decision import Episode, Proposal, State, Verdict
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import ConfigError
from bestofq.core.language import Message, Request, user
from bestofq.core.observation import Screenshot
from bestofq.core.protocols import Judge, LanguageModel, Proposer, Scorer
from bestofq.learning.memory import Memory
from bestofq.models.cached_embedder import CachedEmbedder
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_text import MatchEmbedder
from bestofq.models.embed_vision import VisionEmbedder
from bestofq.models.local import LocalModel
from bestofq.recipes.run_goal import UserJudge
from bestofq.testing.contracts import PAGE, STATE, check_judge, check_proposer, check_scorer, check_suite
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedJudge, ScriptedModel, ScriptedProposer, ScriptedScorer
from examples.own_suite import Lamps


@asynccontextmanager
async def endpoint(reply: object) -> AsyncIterator[ChatModel]:
    """A chat endpoint on loopback that always replies with this."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    async with (
        FaultServer(lambda _: text) as server,
        ChatModel(ChatConfig(model="any", base_url=server.base_url)) as model,
    ):
        yield model


def commands(request: Request) -> Sequence[str]:
    """Replies of a scripted model: clicks on all elements, the first again, and nonsense."""
    clicks = [f" so\nclick [{mark}]" for mark in (1, 2, 3, 1)]
    return [*clicks, "nonsense"]


def composite(request: Request) -> Sequence[str]:
    """The same as composite actions."""
    return [f"PLAN: look\n{reply(mark)}" for mark in (1, 2, 3, 1)]


def reply(mark: int) -> str:
    """A composite action after the plan."""
    return f"THOUGHT: so\nCOMMANDS: CLICK [{mark}]\nEXPLANATION: I click\nSTATUS: CONTINUE"


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


async def test_a_proposer_keeps_to_the_contract(proposer: Proposer) -> None:
    await check_proposer(proposer)


async def test_elements_are_those_of_the_page_and_labels_name_them(proposer: Proposer) -> None:
    for candidate in (await proposer.propose(STATE, 3)).candidates:
        assert isinstance(candidate.action, Click)
        named = next(element.name for element in PAGE.elements if element.mark == candidate.action.mark)
        assert named in candidate.label


def second(request: Request) -> Sequence[str]:
    return [" 2"]


def make_own_scorer() -> Scorer:
    return make_agent("own", Models(BestOfQSettings(scorer="examples.own_scorer:make_scorer"))).scorer


def make_q_scorer() -> QScorer:
    return QScorer(Sum(), Lengths(), EmbeddingTexts(), checkpoint="q1")


SCORERS: dict[str, Callable[[], Scorer]] = {
    "constant": ConstantScorer,
    "vote": VoteScorer,
    "q": make_q_scorer,
    "prior": lambda: PriorScorer(make_q_scorer(), beta=0.5),
    "memory": lambda: MemoryScorer(Memory({}, 0.5, train_n=3)),
    "words": WordScorer,
    "picker": lambda: PickerScorer(ScriptedModel(second)),
    "picker that fails": lambda: PickerScorer(ScriptedModel(lambda request: ["neither"])),
    "feedback": lambda: FeedbackScorer(PickerScorer(ScriptedModel(second))),
    "scripted": lambda: ScriptedScorer(lambda state, candidates: range(len(candidates))),
    "own": make_own_scorer,
}


@pytest.mark.parametrize("name", SCORERS)
async def test_a_scorer_keeps_to_the_contract(name: str) -> None:
    await check_scorer(SCORERS[name]())


@pytest.mark.parametrize(
    ("scorer", "answer"),
    [
        (ChatPickerScorer, {"reasoning": "blue", "best": 2}),
        (ChatVerifierScorer, {"reason": "blue", "verdict": "right"}),
    ],
)
async def test_a_scorer_behind_an_endpoint_keeps_to_the_contract(
    scorer: Callable[[ChatModel], Scorer], answer: object
) -> None:
    async with endpoint(answer) as model:
        await check_scorer(scorer(model))


async def yes(episode: Episode) -> bool | None:
    return True


async def nobody(episode: Episode) -> bool | None:
    return None


@pytest.mark.parametrize(
    "judge",
    [ScriptedJudge(lambda episode: "failure"), UserJudge(yes), UserJudge(nobody)],
    ids=["scripted", "user", "no user"],
)
async def test_a_judge_keeps_to_the_contract(judge: Judge) -> None:
    await check_judge(judge)


@pytest.mark.parametrize(
    ("criteria", "answer"),
    [
        (None, {"reason": "it is there", "verdict": "success"}),
        ("opentable", {name: {"reason": "so", "met": True} for name in OPENTABLE_CRITERIA}),
        (None, "well"),
    ],
    ids=["whole", "by criteria", "cannot be read"],
)
async def test_a_judge_behind_an_endpoint_keeps_to_the_contract(criteria: Criteria | None, answer: object) -> None:
    async with endpoint(answer) as model:
        await check_judge(ChatJudge(model=model, criteria=criteria))


ITEMS = [EmbedItem(text="red"), EmbedItem(text="buy the red one\nnow"), EmbedItem(text="page: red Buy Now [1]")]


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision(tmp_path_factory.mktemp("vision"))


@cache
def local_model(path: str = "pocket") -> LocalModel:
    return LocalModel.load(path, device="cpu", precision="float32")


@pytest.fixture(params=["local", "last token", "beside the goal", "one of my own", "vision"])
def embedder(request: pytest.FixtureRequest, weights: str, vision: Path) -> CachedEmbedder:
    match request.param:
        case "local":
            return LocalEmbedder(local_model(weights))
        case "last token":
            return LocalEmbedder(local_model(weights), EmbedConfig(pooling="last"))
        case "beside the goal":
            return MatchEmbedder(LocalEmbedder(local_model(weights)))
        case "one of my own":
            return Models(BestOfQSettings(model=ModelSettings(embedder="experiments.one_hot:OneHot"))).embedder
    return VisionEmbedder.load(vision, device="cpu", precision="float32", config=EmbedConfig(pixels=112 * 112))


async def test_a_vector_an_item_of_the_width_that_the_spec_says(embedder: CachedEmbedder) -> None:
    vectors, tokens = await embedder.embed(ITEMS)
    assert vectors.shape == (len(ITEMS), embedder.spec.dim)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert tokens > 0


async def test_an_item_has_one_vector_whatever_it_comes_with(embedder: CachedEmbedder) -> None:
    together, _ = await embedder.embed([*ITEMS, ITEMS[0]])
    np.testing.assert_array_equal(together[0], together[3])
    for item, vector in zip(ITEMS, together, strict=False):
        alone, tokens = await embedder.embed([item])
        np.testing.assert_allclose(alone[0], vector, rtol=1e-4, atol=1e-5)
        assert tokens == 0  # it was known


async def test_other_items_have_other_vectors(embedder: CachedEmbedder) -> None:
    vectors, _ = await embedder.embed(ITEMS)
    assert len({vector.tobytes() for vector in vectors}) == len(ITEMS)


def test_what_is_no_embedder_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"builtins:repr"):
        _ = Models(BestOfQSettings(model=ModelSettings(embedder="builtins:repr"))).embedder


PROMPT = "goal: a red lamp under 20 dollars\npage:\nRed [1]"
SHOT = Screenshot(sha256="0", media_type="image/png", width=1, height=1)


@pytest.fixture(params=["local", "endpoint", "scripted"])
async def model(request: pytest.FixtureRequest) -> AsyncIterator[LanguageModel]:
    match request.param:
        case "local":
            yield local_model()
        case "endpoint":
            async with endpoint("click [1]\nno") as asked:
                yield asked
        case _:
            yield ScriptedModel(lambda asked: ["click [1]", "click [2]", "click [3]"])


@pytest.mark.parametrize(("n", "greedy"), [(1, True), (3, True), (2, False)])
async def test_it_gives_as_many_replies_as_are_drawn_and_counts_them(
    model: LanguageModel, n: int, greedy: bool
) -> None:
    request = Request(messages=user(PROMPT), n=n, greedy=greedy, max_tokens=4, seed=1, role="critic")
    found = await model.generate(request)
    assert len(found.replies) == n
    used = found.usage
    assert used.role == "critic"
    assert min(used.tokens_in, used.tokens_out, used.calls) >= 1
    assert all(reply.log_prob is None or reply.log_prob <= 0 for reply in found.replies)


async def test_the_same_request_gives_the_same_replies_and_its_greedy_one_alone(model: LanguageModel) -> None:
    many = Request(messages=user(PROMPT), n=3, max_tokens=4, seed=1)
    alone = Request(messages=user(PROMPT), max_tokens=4)
    one, two, first = [[r.text for r in (await model.generate(request)).replies] for request in (many, many, alone)]
    assert one == two
    assert one[:1] == first


async def test_messages_are_read_in_their_order(model: LanguageModel) -> None:
    request = Request(messages=[*user("a", system="s"), Message(role="assistant", text="b")], max_tokens=2)
    assert request.prompt == "s\na\nb"
    assert len((await model.generate(request)).replies) == 1


async def test_what_a_model_cannot_do_is_refused() -> None:
    local = local_model()
    with pytest.raises(ConfigError, match="pictures"):
        await local.generate(Request(messages=user("where?", (SHOT,))))
    async with endpoint("click [1]") as asked:
        cut = await asked.generate(Request(messages=user(PROMPT), n=2, one_line=True))
    assert [reply.text for reply in cut.replies] == ["click [1]"] * 2


DRAWN = itertools.count()


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        (ScriptedScorer(lambda state, candidates: [0.0]), "2 candidates"),
        (ScriptedScorer(lambda state, candidates: [float("nan")] * len(candidates)), "finite"),
        (ScriptedScorer(lambda state, candidates: [next(DRAWN) for _ in candidates]), "again"),
    ],
)
async def test_a_scorer(scorer: ScriptedScorer, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        await check_scorer(scorer)


async def test_a_proposer_that_offers_an_action_twice() -> None:
    class Twice:
        async def propose(self, state: State, n: int) -> Proposal:
            one = await ScriptedProposer(lambda state, n: [" so\nclick [1]"]).propose(state, 1)
            return one.model_copy(update={"candidates": one.candidates * n})

    with pytest.raises(AssertionError, match="twice"):
        await check_proposer(Twice())


async def test_a_judge_whose_reward_does_not_fit() -> None:
    class Kind:
        name = "kind"

        async def judge(self, episode: Episode) -> Verdict:
            return Verdict(reward=0.5, outcome="success")

    with pytest.raises(AssertionError, match=r"success with reward 0\.5"):
        await check_judge(Kind())


async def test_a_suite_whose_splits_share_tasks() -> None:
    with pytest.raises(AssertionError, match="two splits"):
        await check_suite(Lamps(["red"]))
