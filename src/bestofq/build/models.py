"""The models that the settings name, each loaded when it is first used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bestofq.agents.dialects.composite import CHAT_TEMPLATES, TEMPLATES
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.prompting import CHAT, LOCAL, prompt_hash
from bestofq.build.settings import BestOfQSettings
from bestofq.core.embedding import EmbedConfig, EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.language import Request, user
from bestofq.core.loading import call_object
from bestofq.core.protocols import Judge, LanguageModel
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.prices import Budget
from bestofq.models.shipped import SHIPPED

if TYPE_CHECKING:  # an agent at an endpoint needs no PyTorch
    from bestofq.models.cached_embedder import CachedEmbedder
    from bestofq.models.local import LocalModel


@dataclass(frozen=True)
class Models:
    """The models of one run; all its agents share them."""

    settings: BestOfQSettings
    budget: Budget = field(default_factory=Budget)  # of all endpoints together

    def replaced(self, settings: BestOfQSettings) -> "Models":
        """The models of other settings; none that is loaded is reused."""
        return type(self)(settings, self.budget)

    def reading(self, spec: EmbedSpec) -> "Models":
        """The models with texts embedded the way a Q-function was trained on."""
        sees = () if self.settings.model.embedder is None else ("pixels", "pixels_least")
        ways = ("layer", "pooling", "context", "matches", *sees)
        return self._with_model({f"embed_{way}": getattr(spec, way) for way in ways})

    def playing(self, model: Path) -> "Models":
        """The models with another local model."""
        return self._with_model({"path": str(model)})

    def _with_model(self, changes: Mapping[str, object]) -> "Models":
        model = self.settings.model.model_copy(update=changes)
        return self.replaced(self.settings.model_copy(update={"model": model}))

    async def close(self) -> None:
        """Closes the endpoints' connections."""
        for endpoint in {id(e): e for e in (self.endpoint, self.judge_endpoint, self.seeing, self.picking)}.values():
            if endpoint is not None:
                await endpoint.close()

    # ---- what proposes

    @cached_property
    def local(self) -> "LocalModel":
        from bestofq.models.local import LocalModel

        chosen = self.settings.model
        return LocalModel.load(SHIPPED.get(chosen.path, chosen.path), device=chosen.device, precision=chosen.precision)

    @cached_property
    def endpoint(self) -> ChatModel | None:
        """The model that proposes, where it is not the local one."""
        return ChatModel(self.settings.chat, self.budget) if self.settings.chat else None

    @cached_property
    def prompted(self) -> LanguageModel | None:
        """The proposer, where it is asked in the pocket model's prompts."""
        if self.endpoint is None:
            return self.local
        return self.endpoint if in_pocket_prompts(self.settings) else None

    @property
    def prompts(self) -> str:
        """Hash of the prompts that the proposer reads."""
        own, composite = (LOCAL, TEMPLATES) if in_pocket_prompts(self.settings) else (CHAT, CHAT_TEMPLATES)
        return prompt_hash(own if self.settings.model.dialect == "commands" else (*own, *composite))

    async def gives_log_probs(self) -> bool:
        """Whether the model that proposes says how probable a reply is. An endpoint is asked for a word to find out."""
        if self.endpoint is None:
            return True
        word = Request(messages=user("Reply with one word."), greedy=False, log_probs=True)
        return (await self.endpoint.generate(word)).replies[0].log_prob is not None

    # ---- what picks, sees and judges

    @cached_property
    def picking(self) -> ChatModel | None:
        """The endpoint that picks, where it is not the proposer's."""
        return ChatModel(self.settings.picker_chat, self.budget) if self.settings.picker_chat else None

    @cached_property
    def seeing(self) -> ChatModel | None:
        """The endpoint of a vision localizer."""
        own = self.settings.localizer_chat
        return ChatModel(own, self.budget) if own else self.endpoint

    @cached_property
    def judge_endpoint(self) -> ChatModel | None:
        return ChatModel(self.settings.judge, self.budget) if self.settings.judge else None

    @property
    def judge(self) -> Judge | None:
        """Who says how an episode ended, where the environment cannot tell."""
        endpoint = self.judge_endpoint
        return ChatJudge(model=endpoint, screenshots=self.settings.judge_screenshots) if endpoint else None

    # ---- what embeds

    @cached_property
    def embedder(self) -> "CachedEmbedder":
        """The proposer's own model, another one (Table 12), or an endpoint that was compared with one.

        ConfigError where an endpoint proposes and no model is named that embeds, and where one of the user's own is no
        `CachedEmbedder`.
        """
        from bestofq.models.cached_embedder import CachedEmbedder
        from bestofq.models.embed import LocalEmbedder
        from bestofq.models.embed_http import Agreement, HttpEmbedder, PoolingEndpoint
        from bestofq.models.embed_vision import load_embedder

        chosen = self.settings.model
        if self.settings.chat is not None:
            check_embedder(self.settings, self.settings.chat.model)
        if chosen.embed_agreement is not None:
            agreement = Agreement.read(chosen.embed_agreement)
            return HttpEmbedder(PoolingEndpoint(agreement.endpoint), agreement)
        ways = {way: getattr(chosen, f"embed_{way}") for way in EmbedConfig.model_fields if way != "prompt"}
        how = EmbedConfig(prompt=prompt_hash(), **ways)
        if chosen.embedder is None:
            return LocalEmbedder(self.local, how)
        if ":" in chosen.embedder:
            own = call_object(chosen.embedder, how)
            if not isinstance(own, CachedEmbedder):
                wanted = "a bestofq.models.cached_embedder.CachedEmbedder"
                raise ConfigError(f"{chosen.embedder} gave {own!r}, which is no embedder: it must be {wanted}")
            return own
        path = SHIPPED.get(chosen.embedder, chosen.embedder)
        return load_embedder(path, how, device=chosen.device, precision=chosen.precision)

    @property
    def texts(self) -> EmbeddingTexts:
        """ConfigError where matches are asked for, and the embedder gives none."""
        spec, chosen = self.embedder.spec, self.settings.model
        if chosen.embed_matches and not spec.matches:
            raise ConfigError(
                f"{spec.model} does not tell how tokens match the goal's: set model.embed_matches=false, or embed by a "
                "local language model"
            )
        return EmbeddingTexts(chosen.embed_context, matches=spec.matches, pictures=spec.pixels > 0)


def check_embedder(settings: BestOfQSettings, proposer: str, name: str = "NAME") -> None:
    """ConfigError where the endpoint's model `proposer` proposes and nobody says what embeds its texts; `name`: of the
    model to advise."""
    chosen = settings.model
    if chosen.embedder is None and chosen.embed_agreement is None and proposer.rpartition("/")[2] != chosen.path:
        raise ConfigError(
            f"{proposer} proposes behind an endpoint, and no model is named that embeds its texts: "
            f"add --set model.embedder={name}, the directory or hub name of the model"
        )


def in_pocket_prompts(settings: BestOfQSettings) -> bool:
    """Whether the proposer is asked in the pocket model's prompts: a local one, or an endpoint's named alike."""
    return settings.chat is None or is_shipped(settings.chat)


def is_shipped(chat: ChatConfig) -> bool:
    """Whether the endpoint's model is named as a pocket model."""
    return chat.model.rpartition("/")[2] in SHIPPED
