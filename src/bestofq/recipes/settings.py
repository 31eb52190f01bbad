"""The settings of the Best-of-Q recipe. Every default of the paper quotes its place."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bestofq.agents.judges.chat import SCREENSHOTS
from bestofq.agents.prompting import By
from bestofq.core.embedding import Context, Pooling
from bestofq.core.noun import Noun
from bestofq.envs.booking import suite as booking
from bestofq.envs.miniwob import suite as miniwob
from bestofq.envs.miniwob.suite import Families
from bestofq.envs.webshop import suite as webshop
from bestofq.envs.webshop.search import SearchFields
from bestofq.envs.webshop.splits import Splits
from bestofq.envs.webvoyager import suite as webvoyager
from bestofq.learning.iql import IQLConfig
from bestofq.learning.tuning import DPOConfig, RFTConfig
from bestofq.models.chat import ChatConfig
from bestofq.models.embed_vision import PIXELS, PIXELS_LEAST
from bestofq.search.config import SearchConfig

SuiteName = Literal["webshop", "booking", "miniwob", "webvoyager"]
STEP_LIMITS: Mapping[SuiteName, int] = {
    "webshop": webshop.STEP_LIMIT,
    "booking": booking.STEP_LIMIT,
    "miniwob": miniwob.STEP_LIMIT,
    "webvoyager": webvoyager.STEP_LIMIT,
}
LocalizerKind = Literal["none", "page", "vision", "page+vision"]
AgentKind = Literal["prompting", "random", "explore", "picker", "verifier", "best-of-q", "prior", "beam", "mcts"]


class ModelSettings(Noun):
    """The frozen model that proposes, picks and embeds."""

    path: str = Field(default="pocket", description="directory or hub name; pocket, pocket-web and pocket-agentq ship")
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    temperature: float = Field(default=0.8, gt=0, description="of every draw but the greedy first")
    draws: int = Field(default=3, ge=1, description="draws per wanted candidate, repeats dropped")
    beams: int = Field(default=4, ge=2, description="width of the agent beam's search over one action (Agent Q, 4.1)")
    dialect: Literal["commands", "composite"] = Field(
        default="commands", description="how it writes an action: a thought and a command, or as Agent Q (3.1)"
    )
    reply_tokens: int | None = Field(
        default=None, ge=1, description="of one draw, at most; what is longer is no action; none: 40, composite 120"
    )
    embedder: str | None = Field(
        default=None,
        description="model that embeds: directory, hub name or a shipped one (Table 12); none: the one at `path`",
    )
    embed_pixels: int = Field(default=PIXELS, ge=0, description="largest picture a VLM embedder sees; 0: texts only")
    embed_pixels_least: int = Field(default=PIXELS_LEAST, ge=0, description="smaller pictures are enlarged")
    embed_agreement: Path | None = Field(
        default=None, description="file of `bestofq embed --check`: embed by that endpoint"
    )
    embed_layer: int = Field(default=-1, description="hidden layer; the last in A.3")
    embed_pooling: Pooling = Field(default="mean", description="mean over a text's own tokens (A.3), or the last")
    embed_context: Context = Field(default="alone", description="texts alone (A.3), or see `EmbeddingTexts`")

    @property
    def most_tokens(self) -> int:
        """Of one draw."""
        return self.reply_tokens or (40 if self.dialect == "commands" else 120)


class SuiteSettings(Noun):
    """Which tasks, and how many of them."""

    name: SuiteName = "webshop"
    data: Path | None = Field(
        default=None,
        description="webshop: folder of the real files, none: synthetic; miniwob: its html folder, none: the "
        "package's; webvoyager: the jsonl file",
    )
    only: str = Field(default="*", description="globs of task ids, of miniwob's task names; commas between them")
    seed: int = Field(default=2026, description="of the synthetic data, the splits and the price limits")
    train_tasks: int = Field(default=800, ge=1, description="at most")
    per_task: int = Field(default=5, ge=1, description="miniwob: problems of each task, by seed")
    families: Families = Field(default="all", description="miniwob: all, seen in training, or held-out")
    splits: Splits | None = Field(
        default=None,
        description="webshop's real files: by product, as webshop (by goal), as agent-q; none: the last with the full "
        "files, else the second",
    )
    search_fields: SearchFields = Field(
        default="all",
        description="webshop: what its search reads of a product: all its texts, or as upstream name, description, "
        "first bullet and options",
    )
    spacy: str | None = Field(
        default=None,
        description="webshop: spaCy pipeline that finds the nouns of product names for the reward, en_core_web_lg as "
        "published; none: our own rule",
    )
    holdout: bool = Field(default=False, description="webvoyager: split by task; the paper uses all for all (4.1)")
    hosts: tuple[str, ...] = Field(default=(), description="webvoyager: allowed besides each task's own")
    step_limit: int | None = Field(default=None, ge=1, description="none: webshop 15, miniwob 10, others 30")
    env: Literal["text", "browser"] = Field(
        default="text", description="of webshop and booking; the others need the browser"
    )
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
        return self.name not in ("webshop", "booking") or self.env == "browser"


class AgentQSettings(Noun):
    """Agent Q's part (Algorithm 1). The paper gives no numbers for α, the threshold and the sizes."""

    search: SearchConfig = SearchConfig()
    inference: SearchConfig | None = Field(default=None, description="search of the agent mcts; none: as `search`")
    feedback: Literal["model", "q", "none"] = Field(
        default="model",
        description="who ranks a node's actions: the model, by K - 1 questions; a learned Q, by none; nobody (6.2)",
    )
    alpha: float = Field(default=0.5, ge=0, le=1, description="weight of the searched Q against feedback's (Eq. 10)")
    threshold: float = Field(default=0.2, ge=0, le=1, description="least difference in Q of a pair (Algorithm 1)")
    rounds: int = Field(default=1, ge=1, description="N of Algorithm 1: search, pairs, DPO")
    tasks: int = Field(default=100, ge=1, description="B of Algorithm 1: training tasks searched a round")
    replay: int | None = Field(
        default=None,
        ge=0,
        description="earlier rounds whose pairs are trained on again, against the likelihoods they were drawn with "
        "(3.2.2); none: all",
    )
    reference: Literal["base", "rft"] = Field(
        default="base",
        description="what DPO begins from in comparison and demo: the base model (4.1, shop), or RFT's (6.2, booking)",
    )
    dpo: DPOConfig = DPOConfig()
    rft: RFTConfig = RFTConfig()


class BestOfQSettings(Noun):
    """The whole recipe (A.2)."""

    model: ModelSettings = ModelSettings()
    chat: ChatConfig | None = Field(default=None, description="an endpoint that proposes and picks instead of `model`")
    judge: ChatConfig | None = Field(default=None, description="says how episodes ended where no reward is known")
    judge_screenshots: int = Field(default=SCREENSHOTS, ge=0, description="shown to the judge, the last ones")
    suite: SuiteSettings = SuiteSettings()
    by: By = Field(default="mark", description="how a chat model names an element: mark, words or point")
    chat_screenshots: int = Field(default=1, ge=0, description="shown to a chat model, the last ones (A.5)")
    localizer: LocalizerKind = Field(default="none", description="who finds elements that are described in words (A.1)")
    localizer_chat: ChatConfig | None = Field(default=None, description="endpoint of a vision localizer; none: `chat`")
    picker_chat: ChatConfig | None = Field(
        default=None, description="an endpoint that picks instead of the proposer's; none: the proposer's own (Table 3)"
    )
    iql: IQLConfig = IQLConfig(steps=6000)
    n_candidates: int = Field(default=3, ge=1, description="N (3.3)")
    epsilon: float = Field(default=0.5, ge=0, le=1, description="of the seed runs (A.2)")
    seed_runs: int = Field(default=5, ge=1, description="passes of the exploring agent (A.2)")
    cycles: int = Field(default=4, ge=0, description="times exploit, add data, retrain (A.2)")
    runs_per_cycle: int = Field(default=2, ge=1, description="exploiting passes a cycle (A.2)")
    beta: float = Field(default=0.1, gt=0, description="of the prior agent; chosen on dev tasks")
    seed: int = 0
    agent_q: AgentQSettings = AgentQSettings()

    @model_validator(mode="after")
    def _words_are_found(self) -> Self:
        if self.by == "words" and self.localizer == "none":
            raise ValueError("with by=words a localizer must find the elements: set localizer to page or vision")
        return self

    def reads_q(self, kind: AgentKind) -> bool:
        """Whether this kind of agent needs a Q-function: those that rank by it, and a search whose Q̂ it gives."""
        return kind in ("best-of-q", "prior") or (kind == "mcts" and self.agent_q.feedback == "q")
