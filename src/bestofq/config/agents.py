"""Agents and what they consist of, from the settings."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, JsonValue

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.commands import COMMANDS
from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.localizers import VisionLocalizer
from bestofq.agents.prompting import VERIFIER, prompt_hash
from bestofq.agents.proposers import ChatProposer, Dialect, SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer, VoteScorer
from bestofq.agents.scorers.critics import ChatPickerScorer, ChatVerifierScorer, PickerScorer, VerifierScorer
from bestofq.agents.scorers.learned import GatedScorer, PriorScorer, QScorer, Values
from bestofq.agents.scorers.memory import MemoryScorer, WordScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.config.models import Models, check_embedder, in_pocket_prompts, is_pocket
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.loading import load_part, make_part
from bestofq.core.protocols import Localizer, Proposer, Scorer, Selector
from bestofq.learning.config import CARD
from bestofq.learning.memory import FILE, Memory
from bestofq.models.cached_embedder import VectorStore
from bestofq.models.chat import HERE, ChatConfig, ChatModel
from bestofq.models.shipped import find_q

log = logging.getLogger(__name__)

CHAT_TOKENS = 1500
"""Of a local model's reply to instructions: three candidates in ordinary words. A longer reply is cut, and repaired."""


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """One way to choose among candidates (Best-of-Q, 4.1 and Fig. 5): the first of the N that the proposer offers.

    To add a way, put what differs into `AGENTS` under its name. `scorer` is made of the models, what `bestofq train`
    left, and N. `identity` is what only this agent depends on, apart from N, by settings and Q-function.
    """

    scorer: Callable[[Models, Values | None, int], Scorer] = lambda models, values, n: ConstantScorer()
    selector: Callable[[BestOfQSettings], Selector] = lambda settings: GreedySelector()
    propose: Callable[[Models], Proposer] | None = None  # another proposer than that of the settings
    identity: Callable[[BestOfQSettings, Mapping[str, JsonValue]], Mapping[str, JsonValue]] = lambda settings, q: q
    single: bool = False  # whether it proposes one candidate, and depends on no setting of its own
    needs_q: bool = False  # whether it ranks by what `bestofq train` left
    log_probs: bool = False  # whether it needs the log-probability of each candidate
    votes: bool = False  # whether it needs a reply for each candidate

    def reads_q(self, settings: BestOfQSettings) -> bool:
        """Return whether it ranks by what `bestofq train` left."""
        return self.needs_q or (self is AGENTS["mcts"] and settings.agent_q.feedback == "q")

    def check(self, settings: BestOfQSettings) -> None:
        """ConfigError if the settings do not name what the agent needs, or what can be imported. It loads no model."""
        if self is AGENTS["own"]:
            if settings.scorer is None:
                raise ConfigError("the agent own needs your scorer: --set scorer=my_package.my_module:make_scorer")
            load_part("scorer", settings.scorer)
        if settings.proposer is not None:
            load_part("proposer", settings.proposer)

    def whole_identity(
        self, settings: BestOfQSettings, n: int | None, q: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue]:
        """Return what only this agent depends on. `n` None: as the settings say; `q` describes the Q-function."""
        return {} if self.single else {"n": n or settings.n_candidates, **self.identity(settings, q)}


def _verifier(models: Models, values: Values | None, n: int) -> Scorer:
    if models.prompted is not None:
        return VerifierScorer(models.prompted)
    return ChatVerifierScorer(models.chatting, models.settings.chat_screenshots if models.endpoint else 0)


def _prior(models: Models, values: Values | None, n: int) -> Scorer:
    return PriorScorer(make_q_scorer(models, _require_values("prior", values, n)), beta=models.settings.beta)


def _memory(models: Models, values: Values | None, n: int) -> Scorer:
    if values is None or values.memory is None:
        raise ConfigError("the agent memory needs remembered outcomes: give --q a folder made by `bestofq train`")
    return MemoryScorer(values.memory)


AGENTS: dict[str, AgentConfig] = {  # every way to choose, by its name
    "prompting": AgentConfig(single=True),
    "random": AgentConfig(selector=lambda settings: UniformSelector()),
    "explore": AgentConfig(selector=lambda settings: EpsilonGreedySelector(settings.epsilon)),
    "vote": AgentConfig(scorer=lambda models, values, n: VoteScorer(), votes=True),
    "picker": AgentConfig(
        scorer=lambda models, values, n: make_picker(models, models.settings.endpoint_of("picker_chat"))
    ),
    "verifier": AgentConfig(
        scorer=_verifier,
        identity=lambda settings, q: {} if in_pocket_prompts(settings) else {"prompts": prompt_hash(VERIFIER)},
    ),
    "best-of-q": AgentConfig(
        scorer=lambda models, values, n: make_gated_scorer(models, _require_values("best-of-q", values, n)),
        needs_q=True,
    ),
    "prior": AgentConfig(
        scorer=_prior, identity=lambda settings, q: {"beta": settings.beta, **q}, needs_q=True, log_probs=True
    ),
    "memory": AgentConfig(scorer=_memory, needs_q=True),
    "words": AgentConfig(scorer=lambda models, values, n: WordScorer()),
    "own": AgentConfig(
        scorer=lambda models, values, n: make_part("scorer", str(models.settings.scorer), Scorer, models),
        identity=lambda settings, q: {"scorer": settings.scorer},
    ),
    "mcts": AgentConfig(single=True),  # its search has an identity and an N of its own
}


def check_kind(name: str) -> str:
    """Return the name of an agent. ValueError if there is none of that name."""
    if name not in AGENTS:
        raise ValueError(f"there is no agent {name!r}: it is one of {', '.join(AGENTS)}")
    return name


AgentKind = Annotated[str, AfterValidator(check_kind)]


def embeds(settings: BestOfQSettings, kind: AgentKind) -> bool:
    return settings.value == "network" and AGENTS[kind].reads_q(settings)


def make_agent(kind: AgentKind, models: Models, values: Values | None = None, *, n: int | None = None) -> Agent:
    """The agent of that name. ConfigError as `AgentConfig.check`, and if a learned agent has no Q-function. It warns if
    N is not the Q-function's."""
    if kind == "mcts":
        raise ConfigError("the agent mcts searches in environments of its own: use it in eval, not on a page")
    agent, n = AGENTS[kind], n or models.settings.n_candidates
    agent.check(models.settings)
    return Agent(
        name=kind,
        proposer=agent.propose(models) if agent.propose else make_proposer(models, agent.log_probs, agent.votes),
        scorer=agent.scorer(models, values, n),
        selector=agent.selector(models.settings),
        n_candidates=1 if agent.single else n,
        localizer=make_localizer(models),
    )


def make_proposer(models: Models, log_probs: bool = False, votes: bool = False) -> Proposer:
    """`log_probs`: of each candidate. `votes`: each candidate is a reply of its own."""
    settings, chosen = models.settings, models.settings.model
    if settings.proposer is not None:
        proposer: Proposer = make_part("proposer", settings.proposer, Proposer, models)
        return proposer
    if models.prompted is None:
        by = settings.by
        if chosen.dialect == "composite" and by != "mark":
            raise ConfigError(f"model.dialect=composite names elements by marks, not by {by}: leave out by={by}")
        openai = models.endpoint is not None and "openai" in (urlsplit(models.endpoint.config.base_url).hostname or "")
        json = JsonDialect(by=by, page_marks=not openai, thoughts=settings.thoughts, actions=settings.actions)
        dialect = json if chosen.dialect == "commands" else COMPOSITE
        ask = partial(ChatProposer, models.chatting, dialect, votes=votes, candidates=settings.candidates)
        if models.endpoint is not None:
            log_probs |= dialect is COMPOSITE and models.endpoint.config.token_ids
            return ask(screenshots=settings.chat_screenshots, log_probs=log_probs)
        if by == "point":
            raise ConfigError(f"{chosen.path} reads no pictures, and by=point needs them: set by=mark or by=words")
        most = chosen.reply_tokens or CHAT_TOKENS
        return ask(screenshots=0, log_probs=log_probs, temperature=chosen.temperature, max_tokens=most)
    return SamplingProposer(
        models.prompted,
        temperature=chosen.temperature,
        samples_per_candidate=chosen.samples_per_candidate,
        max_new_tokens=chosen.most_tokens,
        dialect=dialect_of(settings),
    )


def dialect_of(settings: BestOfQSettings) -> Dialect:
    return COMMANDS if settings.model.dialect == "commands" else COMPOSITE


def proposer_name(settings: BestOfQSettings) -> str:
    """As the endpoint that proposes knows its model, without an owner; else the local model's path."""
    chat = settings.endpoint_of("chat")
    return settings.model.path if chat is None else chat.model.rpartition("/")[2]


def load_values(folder: Path, models: Models) -> tuple[Models, Values]:
    """Load what `bestofq train` left in a folder, and the models with the embeddings that it reads. CheckpointError;
    ConfigError if nobody says what embeds the texts of an endpoint."""
    if (folder / FILE).exists() and not (folder / CARD).exists():
        chosen = models.settings.model_copy(update={"value": "memory"})
        return models.with_settings(chosen), Memory.load(folder)
    from bestofq.learning.checkpoint import load_value, read_card  # with PyTorch

    card = read_card(folder)
    check_embedder(models.settings, name=card.embed.model)
    models = models.with_embedding(card.embed)
    models = models.with_settings(models.settings.model_copy(update={"value": "network"}))
    return models, load_value(folder, embed=models.embedder.spec)


def make_q_scorer(models: Models, values: Values) -> QScorer | MemoryScorer:
    if isinstance(values, Memory):
        return MemoryScorer(values)
    return QScorer(values, models.embedder, models.texts, checkpoint=values.checkpoint)


def make_gated_scorer(models: Models, values: Values) -> QScorer | MemoryScorer | GatedScorer:
    """The same behind the gate of its values, if one was calibrated and the settings want it."""
    scorer = make_q_scorer(models, values)
    if values.gate is None or values.memory is None or models.settings.gate == "off":
        return scorer
    return GatedScorer(scorer, values.memory, values.gate)


def make_picker(models: Models, own: ChatConfig | None = None) -> PickerScorer | ChatPickerScorer:
    """The model that proposes, or one of its `own`, each in the prompts that it was made for."""
    if own is not None:
        model = models.in_role(own)
        return PickerScorer(model) if is_pocket(own) else ChatPickerScorer(model, 0 if own.base_url == HERE else 1)
    if models.prompted is not None:
        return PickerScorer(models.prompted)
    return ChatPickerScorer(models.chatting, screenshots=1 if models.endpoint else 0)


def _require_values(name: str, values: Values | None, n: int) -> Values:
    if values is None:
        raise ConfigError(f"the agent {name} needs a Q-function: give --q a folder made by `bestofq train`")
    if values.train_n != n:
        log.warning(
            "N = %d candidates at inference, but the Q-function learned from episodes with N = %d: "
            "performance usually peaks where they match (Best-of-Q, Table 4)",
            n,
            values.train_n,
        )
    return values


def keeping_vectors(
    models: Models, kind: AgentKind, vectors: Callable[[EmbedSpec], VectorStore]
) -> AbstractContextManager[None]:
    """Within it, the vectors that an agent of this kind computes go into the store, where training finds them."""
    if not embeds(models.settings, kind):
        return nullcontext()
    return models.embedder.save_to(vectors(models.embedder.spec))


def shipped_q(settings: BestOfQSettings) -> Path | None:
    """The Q-function that ships for the model that proposes, by its name, and the suite, where one does."""
    return find_q(proposer_name(settings), settings.suite.name)


def make_localizer(models: Models) -> Localizer | None:
    """Who places targets in words, where they are. ConfigError where it needs a model that the settings do not name."""
    if models.settings.localizer == "none":
        return None
    own = models.settings.endpoint_of("localizer_chat")
    model = models.endpoint if own is None else models.in_role(own)
    if not isinstance(model, ChatModel):
        raise ConfigError("localizer=vision needs an endpoint: set endpoints.localizer_chat.model, or give --base-url")
    return VisionLocalizer(model)
