"""Agents and what they consist of, from the settings."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.commands import COMMANDS
from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.dialects.dialect import Dialect
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.localizers.page import FallbackLocalizer, PageLocalizer
from bestofq.agents.localizers.vision import VisionLocalizer
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer, Values
from bestofq.agents.scorers.picker import ChatPickerScorer, FeedbackScorer, PickerScorer
from bestofq.agents.scorers.verifier import VerifierScorer
from bestofq.agents.scorers.vote import VoteScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.build.models import Models, in_pocket_prompts, is_shipped
from bestofq.build.settings import AgentKind, BestOfQSettings
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.loading import call_object
from bestofq.core.protocols import Localizer, Proposer, Scorer, Selector
from bestofq.models.cached_embedder import VectorStore
from bestofq.models.chat import ChatModel
from bestofq.models.prices import price_of
from bestofq.models.shipped import POCKET

log = logging.getLogger(__name__)

SHIPPED_Q = {("pocket", "webshop"): POCKET.parent / "pocket_q"}
"""Q-functions that ship, by model and suite."""
SHIPPED_FOR = {"webshop": "pocket", "miniwob": "pocket-web", "booking": "pocket-agentq --set model.dialect=composite"}
"""The shipped model that was taught a suite's pages, as the command line names it."""


def make_agent(kind: AgentKind, models: Models, values: Values | None = None, *, n: int | None = None) -> Agent:
    """The settings of the paper: who scores, who selects (house table; Best-of-Q, 4.1 and Fig. 5).

    Raises ConfigError when a learned agent is given no Q-function; warns when N is not the Q-function's.
    """
    settings = models.settings
    n = n or settings.n_candidates
    scorer: Scorer = ConstantScorer()
    selector: Selector = GreedySelector()
    beams = 0
    match kind:
        case "prompting":
            n = 1
        case "beam":
            n, beams = 1, settings.model.beams
        case "random":
            selector = UniformSelector()
        case "explore":
            selector = EpsilonGreedySelector(settings.epsilon)
        case "vote":
            scorer = VoteScorer()
        case "picker":
            scorer = _picker(models, models.picking)
        case "verifier":
            scorer = _verifier(models)
        case "best-of-q" | "prior":
            scorer = _learned(kind, models, values, n)
        case "own":
            scorer = _own(models)
        case "mcts":
            raise ConfigError("the agent mcts searches in environments of its own: use it in eval, not on a page")
    return Agent(
        name=kind,
        proposer=make_proposer(models, beams=beams, log_probs=kind == "prior"),
        scorer=scorer,
        selector=selector,
        n_candidates=n,
        localizer=_localizer(models),
    )


# ---- proposers


def make_proposer(models: Models, *, beams: int = 0, log_probs: bool = False) -> Proposer:
    """`beams`: the likeliest replies instead of draws. `log_probs`: of candidates, where an endpoint gives them.
    ConfigError where an endpoint would have to find beams."""
    chosen = models.settings.model
    if beams and models.endpoint is not None:
        raise ConfigError("the agent beam searches through a local model's tokens: leave chat and --base-url out")
    if models.prompted is None:
        assert models.endpoint is not None
        by, shots = models.settings.by, models.settings.chat_screenshots
        if chosen.dialect == "composite" and by != "mark":
            raise ConfigError(f"model.dialect=composite names elements by marks, not by {by}: leave out by={by}")
        dialect = JsonDialect(by=by) if chosen.dialect == "commands" else COMPOSITE
        return ChatProposer(models.endpoint, dialect, screenshots=shots, log_probs=log_probs)
    return SamplingProposer(
        models.prompted,
        temperature=chosen.temperature,
        samples_per_candidate=chosen.samples_per_candidate,
        max_new_tokens=chosen.most_tokens,
        dialect=dialect_of(models.settings),
        beams=beams,
    )


def dialect_of(settings: BestOfQSettings) -> Dialect:
    """How the local model is asked, and how its replies are read."""
    return COMMANDS if settings.model.dialect == "commands" else COMPOSITE


def proposer_name(settings: BestOfQSettings) -> str:
    """As the endpoint that proposes knows its model, without an owner; else the local model's path."""
    return settings.model.path if settings.chat is None else settings.chat.model.rpartition("/")[2]


# ---- scorers


def make_q_scorer(models: Models, values: Values) -> QScorer:
    """Scores of a Q-function, with what its embeddings cost."""
    chat = models.settings.chat
    price = price_of(models.embedder.spec.model, chat.prices if chat else None)
    return QScorer(values, models.embedder, models.texts, checkpoint=values.checkpoint, price=price)


def make_feedback(models: Models) -> Scorer:
    """The model that proposes, ranking the actions of a search's nodes (Agent Q, 5.1.1)."""
    return FeedbackScorer(_picker(models))


def _picker(models: Models, own: ChatModel | None = None) -> PickerScorer | ChatPickerScorer:
    """The model that proposes, or an `own` endpoint, each in the prompts that it was made for."""
    if own is not None:
        return PickerScorer(own) if is_shipped(own.config) else ChatPickerScorer(own)
    if models.prompted is not None:
        return PickerScorer(models.prompted)
    assert models.endpoint is not None
    return ChatPickerScorer(models.endpoint)


def _verifier(models: Models) -> VerifierScorer:
    """ConfigError where no model that writes reviews proposes."""
    if models.prompted is None:
        raise ConfigError(
            "the agent verifier reads the reviews that pocket models were taught to write: "
            "use picker with another model behind --base-url"
        )
    return VerifierScorer(models.prompted)


def _own(models: Models) -> Scorer:
    """The user's scorer. ConfigError where none is named, or what is named makes none."""
    name = models.settings.scorer
    if name is None:
        raise ConfigError(
            "the agent own ranks by a scorer of yours: name it by --set scorer=my_package.my_module:make_scorer"
        )
    scorer = call_object(name, models)
    if not isinstance(scorer, Scorer):
        raise ConfigError(
            f"{name} gave {scorer!r}, which is no scorer: it must have score (bestofq.core.protocols.Scorer)"
        )
    return scorer


def _learned(kind: AgentKind, models: Models, values: Values | None, n: int) -> Scorer:
    if values is None:
        raise ConfigError(f"the agent {kind} needs a Q-function: give --q a folder made by `bestofq train`")
    if values.train_n != n:
        log.warning(
            "N = %d candidates at inference, but the Q-function learned from episodes with N = %d: "
            "performance usually peaks where they match (Best-of-Q, Table 4)",
            n,
            values.train_n,
        )
    scorer = make_q_scorer(models, values)
    return scorer if kind == "best-of-q" else PriorScorer(scorer, beta=models.settings.beta)


def keeping_vectors(
    models: Models, kind: AgentKind, vectors: Callable[[EmbedSpec], VectorStore]
) -> AbstractContextManager[None]:
    """Within it, the vectors that an agent of this kind computes go into the store, where training finds them."""
    if not models.settings.reads_q(kind):
        return nullcontext()
    return models.embedder.keeping(vectors(models.embedder.spec))


def pocket_q() -> Path:
    """The Q-function that ships beside the pocket model."""
    return SHIPPED_Q["pocket", "webshop"]


def shipped_q(settings: BestOfQSettings) -> Path | None:
    """The Q-function that ships for the model that proposes, by its name, and the suite, where one does."""
    return SHIPPED_Q.get((proposer_name(settings), settings.suite.name))


# ---- localizers


def _localizer(models: Models) -> Localizer | None:
    kind = models.settings.localizer
    if kind in ("none", "page"):
        return PageLocalizer() if kind == "page" else None
    if models.seeing is None:
        raise ConfigError(f"the localizer {kind} needs an endpoint: set localizer_chat.model, or give --base-url")
    seeing = VisionLocalizer(models.seeing)
    return seeing if kind == "vision" else FallbackLocalizer(PageLocalizer(), seeing)


def check_pictures(settings: BestOfQSettings, taken: bool) -> None:
    """ConfigError where elements are found on pictures, and none is taken."""
    if taken or in_pocket_prompts(settings):
        return
    by, localizer = settings.by, settings.localizer
    if by != "point" and not (by == "words" and localizer == "vision"):
        return
    way = "by=point" if by == "point" else "localizer=vision"
    raise ConfigError(
        f"with {way} a model finds elements on pictures, and none are taken: set suite.env=browser and "
        "suite.screenshots=true, or name elements by marks (by=mark)"
    )
