"""The settings of the Best-of-Q recipe, and the parts they build. Every default of the paper quotes its place."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.judges.chat import SCREENSHOTS, ChatJudge
from bestofq.agents.prompting import CHAT, LOCAL, prompt_hash
from bestofq.agents.proposers.chat import ChatProposer
from bestofq.agents.proposers.sampling import SamplingProposer
from bestofq.agents.scorers.constant import ConstantScorer
from bestofq.agents.scorers.learned import PriorScorer, QScorer
from bestofq.agents.scorers.picker import ChatPickerScorer, PickerScorer
from bestofq.agents.selectors import EpsilonGreedySelector, GreedySelector, UniformSelector
from bestofq.core.embedding import Context, EmbedSpec, Pooling
from bestofq.core.errors import ConfigError
from bestofq.core.noun import Noun
from bestofq.core.protocols import Judge, Proposer, Scorer, Selector
from bestofq.envs.miniwob import suite as miniwob
from bestofq.envs.miniwob.suite import Families
from bestofq.envs.webshop import suite as webshop
from bestofq.envs.webshop.goals import synthetic_goals
from bestofq.envs.webshop.source import load_catalogue
from bestofq.envs.webshop.suite import Suite, synthetic_suite
from bestofq.envs.webshop.synthetic import SyntheticConfig
from bestofq.envs.webvoyager import suite as webvoyager
from bestofq.learning.iql import IQLConfig
from bestofq.learning.value import ValueModel
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_http import Agreement, HttpEmbedder, PoolingEndpoint
from bestofq.models.embed_load import load_embedder
from bestofq.models.embed_once import EmbedsOnce
from bestofq.models.embed_vision import PIXELS, PIXELS_LEAST
from bestofq.models.local import POCKET, LocalModel

SuiteName = Literal["webshop", "miniwob", "webvoyager"]
STEP_LIMITS: Mapping[SuiteName, int] = {
    "webshop": webshop.STEP_LIMIT,
    "miniwob": miniwob.STEP_LIMIT,
    "webvoyager": webvoyager.STEP_LIMIT,
}
AgentKind = Literal["prompting", "random", "explore", "picker", "best-of-q", "prior"]
log = logging.getLogger(__name__)


class ModelSettings(Noun):
    """The frozen model that proposes, picks and embeds."""

    path: str = Field(default="pocket", description="transformers directory or hub name; pocket: the one that ships")
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    temperature: float = Field(default=0.8, gt=0, description="of every draw but the greedy first")
    draws: int = Field(default=3, ge=1, description="draws per wanted candidate, repeats dropped")
    embedder: str | None = Field(
        default=None, description="model that embeds, directory or hub name (Table 12); none: the one at `path`"
    )
    embed_pixels: int = Field(default=PIXELS, ge=0, description="largest picture a VLM embedder sees; 0: texts only")
    embed_pixels_least: int = Field(default=PIXELS_LEAST, ge=0, description="smaller pictures are enlarged")
    embed_agreement: Path | None = Field(
        default=None, description="file of `bestofq embed --check`: embed by that endpoint"
    )
    embed_layer: int = Field(default=-1, description="hidden layer; the last in A.3")
    embed_pooling: Pooling = Field(default="mean", description="mean over a text's tokens (A.3), or its last token")
    embed_context: Context = Field(default="alone", description="texts alone (A.3), or see `EmbeddingTexts`")


class SuiteSettings(Noun):
    """Which tasks, and how many of them."""

    name: SuiteName = "webshop"
    data: Path | None = Field(
        default=None,
        description="webshop: folder of the real files, none: synthetic; miniwob: its html folder, none: the package's; "
        "webvoyager: the jsonl file",
    )
    only: str = Field(default="*", description="glob of task ids; of miniwob's task names")
    seed: int = Field(default=2026, description="of the synthetic catalogue, the splits and the price limits")
    train_tasks: int = Field(default=800, ge=1, description="at most")
    per_task: int = Field(default=5, ge=1, description="miniwob: problems of each task, by seed")
    families: Families = Field(default="all", description="miniwob: all, seen in training, or held-out")
    holdout: bool = Field(default=False, description="webvoyager: split by task; the paper uses all for all (4.1)")
    hosts: tuple[str, ...] = Field(default=(), description="webvoyager: allowed besides each task's own")
    step_limit: int | None = Field(default=None, ge=1, description="none: webshop 15, miniwob 10, webvoyager 30")
    env: Literal["text", "browser"] = Field(default="text", description="of webshop; the others need the browser")
    screenshots: bool | None = Field(
        default=None, description="a picture of every step, for models, judges and the store; none: of webvoyager only"
    )
    concurrency: int | None = Field(default=None, ge=1, description="episodes at once; none: text 128, browser 16")

    @property
    def steps(self) -> int:
        """How many an episode may take."""
        return self.step_limit or STEP_LIMITS[self.name]

    @property
    def at_once(self) -> int:
        return self.concurrency or (16 if self.in_browser else 128)

    @property
    def pictured(self) -> bool:
        return self.name == "webvoyager" if self.screenshots is None else self.screenshots

    @property
    def in_browser(self) -> bool:
        return self.name != "webshop" or self.env == "browser"


class BestOfQSettings(Noun):
    """The whole recipe (A.2)."""

    model: ModelSettings = ModelSettings()
    chat: ChatConfig | None = Field(default=None, description="an endpoint that proposes and picks instead of `model`")
    judge: ChatConfig | None = Field(default=None, description="says how episodes ended where no reward is known")
    judge_screenshots: int = Field(default=SCREENSHOTS, ge=0, description="shown to the judge, the last ones")
    suite: SuiteSettings = SuiteSettings()
    iql: IQLConfig = IQLConfig(steps=6000)
    n_candidates: int = Field(default=3, ge=1, description="N (3.3)")
    epsilon: float = Field(default=0.5, ge=0, le=1, description="of the seed runs (A.2)")
    seed_runs: int = Field(default=5, ge=1, description="passes of the exploring agent (A.2)")
    cycles: int = Field(default=4, ge=0, description="times exploit, add data, retrain (A.2)")
    runs_per_cycle: int = Field(default=2, ge=1, description="exploiting passes a cycle (A.2)")
    beta: float = Field(default=0.1, gt=0, description="of the prior agent; chosen on dev tasks")
    seed: int = 0


@dataclass(frozen=True)
class Parts:
    """What the settings stand for, each made when first needed."""

    settings: BestOfQSettings

    @cached_property
    def suite(self) -> Suite:
        """The shop: goals, products, rewards."""
        chosen = self.settings.suite
        if chosen.data is None:
            return synthetic_suite(SyntheticConfig(seed=chosen.seed))
        catalogue = load_catalogue(chosen.data, seed=chosen.seed)
        return Suite("webshop-1000", catalogue, synthetic_goals(catalogue, seed=chosen.seed), seed=chosen.seed)

    @cached_property
    def model(self) -> LocalModel:
        chosen = self.settings.model
        path = POCKET if chosen.path == "pocket" else chosen.path
        return LocalModel.load(path, device=chosen.device, precision=chosen.precision)

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
        return prompt_hash(LOCAL if self.settings.chat is None else CHAT)

    async def close(self) -> None:
        """Closes the endpoints' connections."""
        for endpoint in (self.endpoint, self.judge_endpoint):
            if endpoint is not None:
                await endpoint.close()

    @cached_property
    def embedder(self) -> EmbedsOnce:
        """The proposer's own model, another one (Table 12), or an endpoint that was compared with one."""
        chosen = self.settings.model
        if chosen.embed_agreement is not None:
            agreement = Agreement.read(chosen.embed_agreement)
            return HttpEmbedder(PoolingEndpoint(agreement.endpoint), agreement)
        if chosen.embedder is not None:
            return load_embedder(
                chosen.embedder,
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
        match kind:
            case "prompting":
                n = 1
            case "random":
                selector = UniformSelector()
            case "explore":
                selector = EpsilonGreedySelector(self.settings.epsilon)
            case "picker":
                scorer = ChatPickerScorer(self.endpoint) if self.endpoint else PickerScorer(self.model)
            case "best-of-q" | "prior":
                scorer = self._learned(kind, values, n)
        return Agent(name=kind, proposer=self._proposer(), scorer=scorer, selector=selector, n_candidates=n)

    def _proposer(self) -> Proposer:
        if self.endpoint is not None:
            return ChatProposer(self.endpoint)
        chosen = self.settings.model
        return SamplingProposer(self.model, temperature=chosen.temperature, draws=chosen.draws)

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
        scorer = QScorer(values, self.embedder, self.texts)
        return scorer if kind == "best-of-q" else PriorScorer(scorer, beta=self.settings.beta)


def pocket_q() -> Path:
    """The Q-function that ships beside the pocket model."""
    return POCKET.parent / "pocket_q"
