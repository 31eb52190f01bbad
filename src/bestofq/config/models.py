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
from bestofq.config.settings import BestOfQSettings
from bestofq.core.embedding import EmbedConfig, EmbedSettings, EmbedSpec
from bestofq.core.errors import ConfigError
from bestofq.core.language import Request, user
from bestofq.core.loading import list_plugins, make_part
from bestofq.core.protocols import Judge, LanguageModel, VisionModel
from bestofq.models.chat import HERE, ChatConfig, ChatModel, check_token_ids
from bestofq.models.prices import Budget
from bestofq.models.shipped import find_model, is_shipped

if TYPE_CHECKING:  # an agent at an endpoint needs no PyTorch
    from bestofq.models.cached_embedder import CachedEmbedder
    from bestofq.models.local import LocalModel, PromptTokens


@dataclass(frozen=True)
class Models:
    """The models of one run; all its agents share them."""

    settings: BestOfQSettings
    budget: Budget = field(default_factory=Budget)  # of all endpoints together
    _loaded: "dict[object, LocalModel]" = field(default_factory=dict, compare=False, repr=False)  # the last one
    _in_roles: dict[ChatConfig, VisionModel] = field(default_factory=dict, init=False, compare=False)

    def with_settings(self, settings: BestOfQSettings) -> "Models":
        """The models of other settings. A local model that both name is loaded once."""
        return type(self)(settings, self.budget, self._loaded)

    def with_embedding(self, spec: EmbedSpec) -> "Models":
        """The models with texts embedded the way a Q-function was trained on."""
        reads_texts_alone = self.settings.model.embedder is None or self.settings.endpoint_of("embedder") is not None
        names = set(EmbedSettings.model_fields) - ({"pixels"} if reads_texts_alone else set())
        changes = {name: getattr(spec, name) for name in names}
        return self._with_model({"embed": self.settings.model.embed.model_copy(update=changes)})

    def with_model(self, model: Path) -> "Models":
        return self._with_model({"path": str(model)})

    def _with_model(self, changes: Mapping[str, object]) -> "Models":
        model = self.settings.model.model_copy(update=changes)
        return self.with_settings(self.settings.model_copy(update={"model": model}))

    async def aclose(self) -> None:
        for model in self._in_roles.values():
            if isinstance(model, ChatModel):
                await model.close()

    @cached_property
    def local(self) -> "LocalModel":
        from bestofq.models.local import LocalModel

        chosen = self.settings.model
        source = find_model(chosen.path), chosen.device, chosen.precision
        if source not in self._loaded:
            self._loaded.clear()
            self._loaded[source] = LocalModel.load(source[0], device=chosen.device, precision=chosen.precision)
        return self._loaded[source]

    @cached_property
    def tokens(self) -> "PromptTokens":
        """The local model's prompts as tokens: of its tokenizer alone, unless its weights are loaded already."""
        from bestofq.models.local import PromptTokens

        loaded: PromptTokens | None = self.__dict__.get("local")
        return loaded or PromptTokens.read(find_model(self.settings.model.path))

    @cached_property
    def endpoint(self) -> ChatModel | None:
        config = self.settings.endpoint_of("chat")
        return None if config is None else self._client(config)

    @cached_property
    def prompted(self) -> LanguageModel | None:
        """The proposer, if it reads the pocket model's prompts."""
        return self.chatting if in_pocket_prompts(self.settings) else None

    @property
    def chatting(self) -> VisionModel:
        """The proposer, whatever prompts it reads."""
        return self.endpoint or self.local

    @property
    def prompts(self) -> str:
        """Hash of the prompts that the proposer reads."""
        chosen = self.settings
        own, composite = (LOCAL, TEMPLATES) if in_pocket_prompts(chosen) else (CHAT, CHAT_TEMPLATES)
        return prompt_hash((*own, *composite) if chosen.model.dialect != "commands" else own)

    async def check_token_ids(self) -> None:
        """ConfigError where the endpoint is to tell tokens, and does not as tuning needs them (`check_token_ids`)."""
        if self.endpoint is None or not self.endpoint.config.token_ids:
            return
        chosen, short = self.settings, in_pocket_prompts(self.settings)
        if chosen.model.dialect != "composite":
            raise ConfigError("token_ids=true of an endpoint is for model.dialect=composite: set that, or leave it out")
        temperature = chosen.model.temperature if short else self.endpoint.config.temperature
        name = "model.temperature" if short else "endpoints.chat.temperature"
        tokens = self.tokens if "path" in chosen.model.model_fields_set else None
        await check_token_ids(self.endpoint, temperature, name, tokens)

    async def gives_log_probs(self) -> bool:
        """Tell whether the proposer says how probable a reply is. An endpoint writes a word to show it. A proposer of
        the user's own shows it by its first candidates."""
        if self.endpoint is None or self.settings.proposer is not None:
            return True
        word = Request(messages=user("Reply with one word."), greedy=False, log_probs=True)
        return (await self.endpoint.generate(word)).replies[0].log_prob is not None

    def in_role(self, config: ChatConfig) -> VisionModel:
        """The model of a role of its own: judge, picker or localizer. ConfigError where one that is to be loaded
        here has no chat template of its own, SetupError where it cannot be found."""
        if config.base_url != HERE:
            return self._client(config)
        if config not in self._in_roles:
            self._in_roles[config] = self._load_model(config.model)
        return self._in_roles[config]

    def _client(self, config: ChatConfig) -> ChatModel:
        """The client of an endpoint, which all its roles share. ConfigError for a model that is to be loaded here."""
        model = self._in_roles.get(config)
        if not isinstance(model, ChatModel):
            model = self._in_roles[config] = ChatModel(config, self.budget)
        return model

    def _load_model(self, path: str) -> "LocalModel":
        from bestofq.models.checkpoints import has_own_template
        from bestofq.models.local import LocalModel

        chosen = self.settings.model
        if path == chosen.path:
            model = self.local
        else:
            model = LocalModel.load(find_model(path), device=chosen.device, precision=chosen.precision)
        if not has_own_template(find_model(path)):
            raise ConfigError(f"{path} has no chat template, so it knows no instructions: name an instruct model")
        return model

    @property
    def judge(self) -> Judge | None:
        """Who says how an episode ended, where the environment cannot tell."""
        chosen = self.settings
        if chosen.own_judge is not None:
            own: Judge = make_part("judge", chosen.own_judge, Judge, self)
            return own
        if (config := chosen.endpoint_of("judge")) is None:
            return None
        return ChatJudge(model=self.in_role(config), screenshots=chosen.judge_sees, criteria=chosen.judge_criteria)

    @cached_property
    def embedder(self) -> "CachedEmbedder":
        """The proposer's own model, or another one (Table 12).
        ConfigError where no model is named that embeds for an endpoint, or the user's own is no `CachedEmbedder`."""
        check_embedder(self.settings)
        from bestofq.models.embed_text import MatchEmbedder

        embedder = self._load_embedder(EmbedConfig(prompt=prompt_hash(), **self.settings.model.embed.model_dump()))
        add = self.settings.model.embed.matches and not embedder.spec.matches  # an own one may have them
        return MatchEmbedder(embedder) if add else embedder

    def _load_embedder(self, how: EmbedConfig) -> "CachedEmbedder":
        from bestofq.models.cached_embedder import CachedEmbedder
        from bestofq.models.embed import LocalEmbedder
        from bestofq.models.embed_text import EndpointEmbedder
        from bestofq.models.embed_vision import load_embedder

        chosen, endpoint = self.settings.model, self.settings.endpoint_of("embedder")
        if endpoint is not None and endpoint.base_url != HERE:
            return EndpointEmbedder(endpoint, how)
        name = chosen.embedder if endpoint is None else endpoint.model
        if name is None:
            return LocalEmbedder(self.local, how)
        if ":" in name or name in list_plugins("embedder"):
            own: CachedEmbedder = make_part("embedder", name, CachedEmbedder, how)
            return own
        return load_embedder(find_model(name), how, device=chosen.device, precision=chosen.precision)

    @property
    def texts(self) -> EmbeddingTexts:
        """ConfigError where the embedder does not read them as the settings ask."""
        spec, chosen = self.embedder.spec, self.settings.model.embed
        if (chosen.action, chosen.state) != (spec.action, spec.state):
            raise ConfigError(
                f"{spec.model} is to embed the {spec.action} of an action and the {spec.state} of a state: set "
                f"model.embed.action={spec.action} and model.embed.state={spec.state}"
            )
        reasoning, page = spec.action == "reasoning", spec.state == "page"
        return EmbeddingTexts(chosen.context, spec.matches, spec.pixels > 0, reasoning, page)


def check_embedder(settings: BestOfQSettings, proposer: str | None = None, name: str = "NAME") -> None:
    """ConfigError if an endpoint proposes and no setting says what embeds. The message advises the model `name`.
    `proposer`: the endpoint's name for its model, by default that of the settings."""
    chosen, chat = settings.model, settings.endpoint_of("chat")
    proposer = proposer or (chat.model if chat else None)
    if proposer is None:
        return
    named = chosen.embedder is not None or settings.endpoint_of("embedder") is not None
    if not named and proposer.rpartition("/")[2] != chosen.path:
        raise ConfigError(
            f"{proposer} proposes behind an endpoint, and no model is named that embeds its texts: add "
            f"--set model.embedder={name}, the directory or hub name of the model, or "
            f"--set endpoints.embedder.model={name} with its base_url"
        )


def in_pocket_prompts(settings: BestOfQSettings) -> bool:
    """Whether the proposer gets the pocket prompts: an endpoint by its name, a local model by settings or template."""
    if (chat := settings.endpoint_of("chat")) is not None:
        return is_pocket(chat)
    path, prompts = settings.model.path, settings.model.prompts
    if prompts != "auto" or is_shipped(path):
        return prompts != "chat"
    from bestofq.models.checkpoints import has_own_template

    return not has_own_template(path)


def is_pocket(chat: ChatConfig) -> bool:
    return is_shipped(chat.model.rpartition("/")[2])


def check_pictures(settings: BestOfQSettings, taken: bool) -> None:
    """ConfigError where elements are found on pictures, and none is taken."""
    if taken or in_pocket_prompts(settings) or settings.by == "mark":
        return
    way = "localizer=vision" if settings.by == "words" else "by=point"
    raise ConfigError(
        f"with {way} a model finds elements on pictures, and none are taken: set suite.env=browser and "
        "suite.screenshots=true, or name elements by marks (by=mark)"
    )
