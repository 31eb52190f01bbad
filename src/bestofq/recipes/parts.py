"""What the settings stand for: models, agents, embedders, judges, each made when first needed."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bestofq.agents.agent import Agent
from bestofq.agents.dialects.commands import COMMANDS
from bestofq.agents.dialects.composite import CHAT_TEMPLATES, COMPOSITE, TEMPLATES
from bestofq.agents.dialects.dialect import Dialect
from bestofq.agents.dialects.json import JsonDialect
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.localizers.fallback import FallbackLocalizer
from bestofq.agents.localizers.page import PageLocalizer
from bestofq.agents.localizers.vision import VisionLocalizer
from bestofq.agents.prompting import CHAT, LOCAL, prompt_hash
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.feedback import FeedbackScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer
from bestofq.agents.scorers.picker import ChatPickerScorer, PickerScorer
from bestofq.agents.scorers.verifier import VerifierScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.protocols import Judge, Localizer, Proposer, Scorer, Selector, Suite
from bestofq.envs.suites import make_suite
from bestofq.learning.value import ValueModel
from bestofq.models.cached_embedder import CachedEmbedder, VectorStore
from bestofq.models.chat import ChatConfig, ChatModel, ChatRequest, Message
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_http import Agreement, HttpEmbedder, PoolingEndpoint
from bestofq.models.embed_load import load_embedder
from bestofq.models.endpoint_model import EndpointModel
from bestofq.models.language_model import LanguageModel
from bestofq.models.local import POCKET, SHIPPED, LocalModel
from bestofq.models.prices import price_of
from bestofq.recipes.settings import AgentKind, BestOfQSettings

log = logging.getLogger(__name__)

SHIPPED_Q = {("pocket", "webshop"): POCKET.parent / "pocket_q"}
"""Q-functions that ship, by model and suite."""
SHIPPED_FOR = {
    "webshop": "pocket",
    "miniwob": "pocket-web",
    "booking": "pocket-agentq --set model.dialect=composite",
}
"""The shipped model that was taught a suite's pages, as the command line names it."""


@dataclass(frozen=True)
class Parts:
    """What the settings stand for, each made when first needed."""

    settings: BestOfQSettings

    @cached_property
    def suite(self) -> Suite:
        return make_suite(self.settings.suite)

    @property
    def step_limit(self) -> int:
        """Steps an episode may take."""
        return self.settings.suite.step_limit or self.suite.step_limit

    @cached_property
    def model(self) -> LocalModel:
        chosen = self.settings.model
        return LocalModel.load(SHIPPED.get(chosen.path, chosen.path), device=chosen.device, precision=chosen.precision)

    @cached_property
    def endpoint(self) -> ChatModel | None:
        """The model that proposes, where it is not the local one."""
        return ChatModel(self.settings.chat) if self.settings.chat else None

    @cached_property
    def judge_endpoint(self) -> ChatModel | None:
        return ChatModel(self.settings.judge) if self.settings.judge else None

    @property
    def judge(self) -> Judge | None:
        """Who says how an episode ended, where the environment cannot tell."""
        endpoint = self.judge_endpoint
        return ChatJudge(model=endpoint, screenshots=self.settings.judge_screenshots) if endpoint else None

    @property
    def prompts(self) -> str:
        """Hash of the prompts that the proposer reads."""
        own, composite = (LOCAL, TEMPLATES) if self._pocket_prompts else (CHAT, CHAT_TEMPLATES)
        return prompt_hash(own if self.settings.model.dialect == "commands" else (*own, *composite))

    @property
    def _pocket_prompts(self) -> bool:
        """Whether the proposer is asked in the pocket model's prompts: a local one, or an endpoint's named alike."""
        return self.settings.chat is None or _is_shipped(self.settings.chat)

    @cached_property
    def prompted(self) -> LanguageModel | None:
        """The proposer, where it is asked in the pocket model's prompts."""
        if self.endpoint is None:
            return self.model
        return EndpointModel(self.endpoint) if self._pocket_prompts else None

    async def gives_log_probs(self) -> bool:
        """Whether the model that proposes says how probable a reply is. An endpoint is asked for a word to find out."""
        if self.endpoint is None:
            return True
        word = ChatRequest(messages=(Message(role="user", text="Reply with one word."),), log_probs=True)
        return (await self.endpoint.reply(word)).choices[0].log_prob is not None

    async def close(self) -> None:
        """Closes the endpoints' connections."""
        for endpoint in {id(e): e for e in (self.endpoint, self.judge_endpoint, self._seeing, self._picking)}.values():
            if endpoint is not None:
                await endpoint.close()

    @cached_property
    def embedder(self) -> CachedEmbedder:
        """The proposer's own model, another one (Table 12), or an endpoint that was compared with one.

        ConfigError where an endpoint proposes and no model is named that embeds.
        """
        chosen = self.settings.model
        if self.settings.chat is not None:
            self.check_embedder(self.settings.chat.model)
        if chosen.embed_agreement is not None:
            agreement = Agreement.read(chosen.embed_agreement)
            return HttpEmbedder(PoolingEndpoint(agreement.endpoint), agreement)
        if chosen.embedder is not None:
            return load_embedder(
                SHIPPED.get(chosen.embedder, chosen.embedder),
                device=chosen.device,
                precision=chosen.precision,
                prompt=prompt_hash(),
                layer=chosen.embed_layer,
                pooling=chosen.embed_pooling,
                context=chosen.embed_context,
                pixels=chosen.embed_pixels,
                pixels_least=chosen.embed_pixels_least,
            )
        return LocalEmbedder(
            self.model,
            prompt=prompt_hash(),
            layer=chosen.embed_layer,
            pooling=chosen.embed_pooling,
            context=chosen.embed_context,
        )

    def check_embedder(self, proposer: str, name: str = "NAME") -> None:
        """ConfigError where the endpoint's model `proposer` proposes and nobody says what embeds its texts; `name`: of
        the model to advise."""
        chosen = self.settings.model
        if chosen.embedder is None and chosen.embed_agreement is None and proposer.rpartition("/")[2] != chosen.path:
            raise ConfigError(
                f"{proposer} proposes behind an endpoint, and no model is named that embeds its texts: "
                f"add --set model.embedder={name}, the directory or hub name of the model"
            )

    def keeping(self, kind: AgentKind, vectors: Callable[[EmbedSpec], VectorStore]) -> AbstractContextManager[None]:
        """Within it, the vectors that an agent of this kind computes go into the store, where training finds them."""
        if not self.settings.reads_q(kind):
            return nullcontext()
        return self.embedder.keeping(vectors(self.embedder.spec))

    def reading(self, spec: EmbedSpec) -> "Parts":
        """The same parts with texts embedded the way a Q-function was trained on: layer, pooling and context."""
        ways: dict[str, object] = {
            "embed_layer": spec.layer,
            "embed_pooling": spec.pooling,
            "embed_context": spec.context,
        }
        if self.settings.model.embedder is not None:
            ways |= {"embed_pixels": spec.pixels, "embed_pixels_least": spec.pixels_least}
        model = self.settings.model.model_copy(update=ways)
        return Parts(self.settings.model_copy(update={"model": model}))

    def playing(self, model: Path) -> "Parts":
        """The same parts with another local model."""
        chosen = self.settings.model.model_copy(update={"path": str(model)})
        return type(self)(self.settings.model_copy(update={"model": chosen}))

    @property
    def texts(self) -> EmbeddingTexts:
        return EmbeddingTexts(self.settings.model.embed_context, pictures=self.embedder.spec.pixels > 0)

    def agent(self, kind: AgentKind, values: ValueModel | None = None, *, n: int | None = None) -> Agent:
        """The settings of the paper as parts: who scores, who selects (house table; Best-of-Q, 4.1 and Fig. 5).

        Raises ConfigError when a learned agent is given no Q-function; warns when N is not the Q-function's.
        """
        n = n or self.settings.n_candidates
        scorer: Scorer = ConstantScorer()
        selector: Selector = GreedySelector()
        beams = 0
        match kind:
            case "prompting":
                n = 1
            case "beam":
                n, beams = 1, self.settings.model.beams
            case "random":
                selector = UniformSelector()
            case "explore":
                selector = EpsilonGreedySelector(self.settings.epsilon)
            case "picker":
                scorer = self._picker() if self._picking is None else self._picker_at(self._picking)
            case "verifier":
                scorer = self._verifier()
            case "best-of-q" | "prior":
                scorer = self._learned(kind, values, n)
            case "mcts":
                raise ConfigError("the agent mcts searches in environments of its own: use it in eval, not on a page")
        return Agent(
            name=kind,
            proposer=self.proposer(beams=beams, log_probs=kind == "prior"),
            scorer=scorer,
            selector=selector,
            n_candidates=n,
            localizer=self._localizer(),
        )

    def check_pictures(self, taken: bool) -> None:
        """ConfigError where elements are found on pictures, and none is taken."""
        if taken or self._pocket_prompts:
            return
        by, localizer = self.settings.by, self.settings.localizer
        if by != "point" and not (by == "words" and localizer == "vision"):
            return
        way = "by=point" if by == "point" else "localizer=vision"
        raise ConfigError(
            f"with {way} a model finds elements on pictures, and none are taken: set suite.env=browser and "
            "suite.screenshots=true, or name elements by marks (by=mark)"
        )

    def feedback(self) -> Scorer:
        """The model that proposes, ranking the actions of a search's nodes (Agent Q, 5.1.1)."""
        return FeedbackScorer(self._picker())

    def values_scorer(self, values: ValueModel) -> QScorer:
        file = self.settings.chat.prices if self.settings.chat else None
        price = price_of(self.embedder.spec.model, file)
        return QScorer(values, self.embedder, self.texts, checkpoint=values.checkpoint, price=price)

    def proposer(self, *, beams: int = 0, log_probs: bool = False) -> Proposer:
        """`beams`: the likeliest replies instead of draws. `log_probs`: of candidates, where an endpoint gives them.
        ConfigError where an endpoint would have to find beams."""
        if beams and self.endpoint is not None:
            raise ConfigError("the agent beam searches through a local model's tokens: leave chat and --base-url out")
        if self.prompted is None:
            assert self.endpoint is not None
            by, shots = self.settings.by, self.settings.chat_screenshots
            if self.settings.model.dialect == "commands":
                return ChatProposer(self.endpoint, JsonDialect(by=by), screenshots=shots, log_probs=log_probs)
            if by != "mark":
                raise ConfigError(f"model.dialect=composite names elements by marks, not by {by}: leave out by={by}")
            return ChatProposer(self.endpoint, COMPOSITE, screenshots=shots, log_probs=log_probs)
        chosen = self.settings.model
        return SamplingProposer(
            self.prompted,
            temperature=chosen.temperature,
            draws=chosen.draws,
            max_new_tokens=chosen.most_tokens,
            dialect=self.dialect,
            beams=beams,
        )

    @property
    def dialect(self) -> Dialect:
        """How the local model is asked, and how its replies are read."""
        return COMMANDS if self.settings.model.dialect == "commands" else COMPOSITE

    @cached_property
    def _seeing(self) -> ChatModel | None:
        """The endpoint of a vision localizer."""
        own = self.settings.localizer_chat
        return ChatModel(own) if own else self.endpoint

    def _localizer(self) -> Localizer | None:
        kind = self.settings.localizer
        if kind in ("none", "page"):
            return PageLocalizer() if kind == "page" else None
        if self._seeing is None:
            raise ConfigError(f"the localizer {kind} needs an endpoint: set localizer_chat.model, or give --base-url")
        seeing = VisionLocalizer(self._seeing)
        return seeing if kind == "vision" else FallbackLocalizer(PageLocalizer(), seeing)

    @cached_property
    def _picking(self) -> ChatModel | None:
        """The endpoint that picks, where it is not the proposer's."""
        return ChatModel(self.settings.picker_chat) if self.settings.picker_chat else None

    def _picker(self) -> PickerScorer | ChatPickerScorer:
        if self.prompted is None:
            assert self.endpoint is not None
            return ChatPickerScorer(self.endpoint)
        return PickerScorer(self.prompted)

    def _picker_at(self, endpoint: ChatModel) -> PickerScorer | ChatPickerScorer:
        return PickerScorer(EndpointModel(endpoint)) if _is_shipped(endpoint.config) else ChatPickerScorer(endpoint)

    def _verifier(self) -> VerifierScorer:
        """ConfigError where no model that writes reviews proposes."""
        if self.prompted is None:
            raise ConfigError(
                "the agent verifier reads the reviews that pocket models were taught to write: "
                "use picker with another model behind --base-url"
            )
        return VerifierScorer(self.prompted)

    def _learned(self, kind: AgentKind, values: ValueModel | None, n: int) -> Scorer:
        if values is None:
            raise ConfigError(f"the agent {kind} needs a Q-function: give --q a folder made by `bestofq train`")
        if values.train_n != n:
            log.warning(
                "N = %d candidates at inference, but the Q-function learned from episodes with N = %d: "
                "performance usually peaks where they match (Best-of-Q, Table 4)",
                n,
                values.train_n,
            )
        scorer = self.values_scorer(values)
        return scorer if kind == "best-of-q" else PriorScorer(scorer, beta=self.settings.beta)


def _is_shipped(chat: ChatConfig) -> bool:
    """Whether the endpoint's model is named as a pocket model, so that it is asked in its prompts."""
    return chat.model.rpartition("/")[2] in SHIPPED


def pocket_q() -> Path:
    """The Q-function that ships beside the pocket model."""
    return SHIPPED_Q["pocket", "webshop"]


def shipped_q(settings: BestOfQSettings) -> Path | None:
    """The Q-function that ships for the model that proposes, by its name, and the suite, where one does."""
    return SHIPPED_Q.get((proposer_name(settings), settings.suite.name))


def proposer_name(settings: BestOfQSettings) -> str:
    """As the endpoint that proposes knows its model, without an owner; else the local model's path."""
    return settings.model.path if settings.chat is None else settings.chat.model.rpartition("/")[2]
