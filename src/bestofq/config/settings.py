"""The settings of the Best-of-Q recipe. Every default of the paper quotes its place."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from bestofq.agents.agent import Agent
from bestofq.agents.prompting import (
    SAMPLES_PER_CANDIDATE,
    SCREENSHOTS,
    TEMPERATURE,
    Actions,
    By,
    CandidateSource,
    Criteria,
)
from bestofq.agents.scorers.learned import PriorScorer
from bestofq.agents.selectors import EpsilonGreedySelector
from bestofq.core.embedding import EmbedSettings
from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE, Endpoint
from bestofq.core.loading import list_plugins
from bestofq.envs.suites import AnySuiteSettings, default_suite
from bestofq.learning.config import DPOConfig, IQLConfig, TuningConfig, TuningRates
from bestofq.models.chat import HERE, ChatConfig
from bestofq.search.config import SearchConfig

_WORD = BeforeValidator(lambda value: "none" if value is None else value)  # --set and TOML files read `none` as None


class ModelSettings(FrozenModel):
    """The frozen model that proposes, picks and embeds. What is `FREE` is part of no run's identity."""

    path: str = Field(
        default="pocket", description="directory or hub name; pocket, pocket-web, -agentq and -quirks ship"
    )
    device: Annotated[str, FREE] = Field(default="auto", description="auto, cpu, cuda, cuda:1, …")
    precision: Annotated[Literal["auto", "float32", "bfloat16"], FREE] = Field(default="auto", description="of weights")
    temperature: float = Field(default=TEMPERATURE, gt=0, description="of every draw but the greedy first")
    samples_per_candidate: int = Field(
        default=SAMPLES_PER_CANDIDATE, ge=1, description="draws per wanted candidate, repeats dropped"
    )
    dialect: Literal["commands", "composite"] = Field(
        default="commands", description="how it writes an action: a thought and a command, or as Agent Q (3.1)"
    )
    prompts: Literal["auto", "short", "chat"] = Field(
        default="auto",
        description="chat: with instructions, as endpoints get them, and JSON that a grammar holds to its form; short: "
        "the pocket models' own; auto: chat for a model that has a chat template of its own",
    )
    reply_tokens: int | None = Field(
        default=None, ge=1, description="of one draw, at most; what is longer is no action. Default: 40, composite 120"
    )
    embedder: Annotated[str | None, FREE] = Field(
        default=None,
        description="model that embeds: directory, hub name or a shipped one (Table 12); or one of your own, "
        "`my_package.my_module:make_embedder`, called with an `EmbedConfig`. "
        "Default: the endpoint embedder, else the model at `path` if no endpoint proposes",
    )
    embed: Annotated[EmbedSettings, FREE] = EmbedSettings()

    @property
    def most_tokens(self) -> int:
        """Of one draw in short prompts."""
        return self.reply_tokens or (40 if self.dialect == "commands" else 120)


class AgentQSettings(FrozenModel):
    """Agent Q's part (Algorithm 1). The paper gives no numbers for α, the threshold and the sizes."""

    search: SearchConfig = SearchConfig()
    feedback: Annotated[Literal["model", "q", "none"], _WORD] = Field(
        default="model",
        description="who ranks a node's actions: the model, by K - 1 questions; a learned Q, by none; nobody (6.2)",
    )
    alpha: float = Field(default=0.5, ge=0, le=1, description="weight of the searched Q against feedback's (Eq. 10)")
    threshold: float = Field(default=0.2, ge=0, le=1, description="least difference in Q of a pair (Algorithm 1)")
    tasks: int = Field(default=100, ge=1, description="B of Algorithm 1: training tasks searched a round")
    dpo: DPOConfig = DPOConfig()
    rft: TuningRates = TuningRates()

    @property
    def rft_config(self) -> TuningConfig:
        """What RFT trains with: its own rates, and for the rest the settings of DPO."""
        shared = {name: getattr(self.dpo, name) for name in TuningConfig.model_fields.keys() - TuningRates.model_fields}
        return TuningConfig(**shared, **self.rft.model_dump())


PRESETS: Mapping[str, Mapping[str, Any]] = {  # what each preset sets; the user's own settings have the last word
    "default": {},
    "paper": {"actions": "paper", "value": "network", "gate": "off"},
}


class BestOfQSettings(FrozenModel):
    """The whole recipe (A.2)."""

    preset: Annotated[Literal["default", "paper"], FREE] = Field(
        default="default",
        description="settings that lie under your own; paper: "
        + ", ".join(f"{name}={value}" for name, value in PRESETS["paper"].items()),
    )
    model: ModelSettings = ModelSettings()
    endpoints: Annotated[dict[str, ChatConfig], FREE] = Field(
        default={},
        description="models behind endpoints, a table each: `[endpoints.chat]` proposes and picks instead of `model`, "
        "`picker_chat` picks (Table 3), `localizer_chat` localizes, `judge` judges, and "
        "`embedder` embeds texts by `/v1/embeddings`",
    )
    judge: str | None = Field(
        default=None,
        description="who says how episodes ended if no reward is known: the name of an endpoint or of an installed "
        "package's judge, or `my_package.my_module:make_judge`, called with the run's `config.models.Models`. "
        "Default: the endpoint judge, if there is one",
    )
    judge_screenshots: int = Field(default=SCREENSHOTS, ge=0, description="shown to the judge, the last ones")
    judge_criteria: Criteria | None = Field(
        default=None,
        description="opentable: a reservation by date and time, party size, user information and completion, all four "
        "(Agent Q, 6.1; with the last screenshot: judge_screenshots=1). Default: the task as a whole",
    )
    suite: AnySuiteSettings = default_suite()
    actions: Actions = Field(
        default="web",
        description="that a chat model may take: web, with keys, tabs, files, addresses and scrolling in boxes; paper, "
        "the eight of Fig. 7",
    )
    value: Annotated[Literal["memory", "network"], FREE] = Field(
        default="memory",
        description="what ranks. memory: outcomes of the same and of like actions, without embeddings "
        "(`learning.memory`); network: Q and V over embeddings by IQL, as in the paper (3.2). Default: memory, or "
        "network if a setting of iql is set",
    )
    gate: Annotated[Literal["calibrated", "off"], FREE] = Field(
        default="calibrated",
        description="calibrated: leave the first candidate only if `bestofq train` has shown that such a decision "
        "helps (`core.gate`); off: always take the best value, as in the paper (3.3)",
    )
    by: By = Field(default="mark", description="how a chat model names an element: mark, words or point")
    candidates: CandidateSource = Field(
        default="auto",
        description="where a chat model's candidates come from: list, one reply with all of them (A.5); samples, a "
        "reply for each, the first of them greedy; auto, a list, then a sample for each that it lacks",
    )
    thoughts: bool = Field(default=True, description="a chat model writes a thought and a note with each action (A.5)")
    chat_screenshots: int = Field(default=1, ge=0, description="shown to a chat model, the last ones (A.5)")
    localizer: Annotated[Literal["none", "vision"], _WORD] = Field(
        default="none", description="who finds elements that are described in words: a model, on the screenshot (A.1)"
    )
    iql: Annotated[IQLConfig, FREE] = IQLConfig()
    n_candidates: int = Field(default=Agent.n_candidates, ge=1, description="N (3.3)")
    epsilon: float = Field(default=EpsilonGreedySelector.epsilon, ge=0, le=1, description="of the seed runs (A.2)")
    seed_runs: Annotated[int, FREE] = Field(default=5, ge=1, le=1000, description="passes of the exploring agent (A.2)")
    cycles: Annotated[int, FREE] = Field(default=4, ge=0, le=1000, description="times exploit, add data, retrain (A.2)")
    runs_per_cycle: Annotated[int, FREE] = Field(default=2, ge=1, le=1000, description="exploiting passes (A.2)")
    beta: Annotated[float, FREE] = Field(
        default=PriorScorer.beta, gt=0, description="of the prior agent; chosen on dev tasks"
    )
    seed: int = Field(default=0, description="of every random draw, with run, agent, task, repeat and step")
    scorer: Annotated[str | None, FREE] = Field(
        default=None,
        description="of the agent own: an installed package's, or `my_package.my_module:make_scorer`, called with the "
        "run's `config.models.Models`",
    )
    proposer: str | None = Field(
        default=None, description="instead of `model` and `chat`: `my_package.my_module:make_proposer`, called likewise"
    )
    agent_q: Annotated[AgentQSettings, FREE] = AgentQSettings()

    @model_validator(mode="before")
    @classmethod
    def _add_implied(cls, tree: Any) -> Any:
        """Add what a preset, a setting of iql and an endpoint for judging imply, under the user's own settings."""
        if not isinstance(tree, dict):
            return tree
        implied = dict(PRESETS.get(str(tree.get("preset")), {}))
        if tree.get("iql"):
            implied["value"] = "network"
        if "judge" in (tree.get("endpoints") or {}):
            implied["judge"] = "judge"
        return {**implied, **tree}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.judge is not None and self.judge not in self.endpoints and not self.own_judge:
            known = f"the endpoints are {', '.join(self.endpoints)}" if self.endpoints else "there are none"
            raise ValueError(f"judge names the endpoint {self.judge!r}, but {known}: set endpoints.{self.judge}.model")
        if self.by == "words" and self.localizer == "none":
            raise ValueError("with by=words a localizer must find the elements: set localizer=vision")
        return self

    @property
    def own_judge(self) -> str | None:
        """Return the judge that is a part of the user's, and no endpoint."""
        own = self.judge is not None and (":" in self.judge or self.judge in list_plugins("judge"))
        return self.judge if own and self.judge not in self.endpoints else None

    @property
    def judge_sees(self) -> int:
        """Return the number of screenshots; none if the judge is loaded here, because it reads texts alone."""
        judge = self.endpoint_of("judge")
        return 0 if judge and judge.base_url == HERE else self.judge_screenshots

    def endpoint_of(self, role: Endpoint) -> ChatConfig | None:
        """Return the endpoint of a role: that of its own name; the judge may be another."""
        name = self.judge if role == "judge" else role
        return None if name is None else self.endpoints.get(name)
