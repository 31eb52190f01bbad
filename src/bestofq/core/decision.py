"""What the agent weighs (`Candidate`, `Decision`) and what comes of it (`Step`, `Verdict`, `Episode`)."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bestofq.core.actions import Action, identity
from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Observation, Point, Screenshot, Task
from bestofq.core.seeds import step_seed
from bestofq.core.usage import Usage

Outcome = Literal["success", "failure", "blocked", "impossible", "unparseable", "unjudged", "infra_error"]
"""blocked: by a captcha or a login; impossible: the site cannot give what is asked; unparseable: the judge's reply
could not be read; unjudged: the environment cannot tell, and no judge has spoken; infra_error: the machinery broke."""
DECIDED: tuple[Outcome, ...] = ("success", "failure", "blocked", "impossible")
"""The outcomes that tell how an agent did: episodes with any other are left out of training and of success rates.
`blocked` and `impossible` stay in: the paper counts a site behind captchas in full (Best-of-Q, D)."""


def finite(number: float | None) -> float | None:
    """The number; None instead of NaN and ±∞, which tell nothing."""
    return number if number is not None and isfinite(number) else None


class Candidate(FrozenModel):
    """An action with its thought and what to remember (note; Best-of-Q, A.5), or Agent Q's composite action (3.1)."""

    action: Action
    label: str = Field(description="the action in words, marks replaced by what they name")
    thought: str = ""
    note: str = ""
    plan: str = Field(default="", description="the steps to take, on the first step only")
    explanation: str = Field(default="", description="what the action is for, told to the user")
    status: Literal["", "continue", "done"] = ""
    log_prob: Annotated[float | None, AfterValidator(finite)] = Field(
        default=None, description="natural log of the whole reply's probability"
    )
    reply: str | None = Field(default=None, description="the model's raw reply")
    reply_ids: tuple[int, ...] | None = Field(default=None, description="the reply's tokens as drawn, its end included")
    prompt_hash: str | None = Field(default=None, description="`ids_hash` of the tokens it was drawn after, if known")
    votes: int | None = Field(default=None, description="replies of the proposer that gave this action. Default: one")


def distinct(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The first candidate of each action, with the votes of all: two buttons with the same words are two actions."""
    found: dict[Action, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(identity(candidate.action), []).append(candidate)
    return tuple(
        first if not others else first.model_copy(update={"votes": sum(c.votes or 1 for c in (first, *others))})
        for first, *others in found.values()
    )


class Proposal(FrozenModel):
    """What a proposer offers: 1 to N candidates, the first its greedy choice."""

    candidates: tuple[Candidate, ...]
    usage: tuple[Usage, ...] = ()
    failed: bool = Field(default=False, description="no reply could be read: the candidate is a recorded no-op")


class GateReading(FrozenModel):
    """Whether a decision may leave the proposer's first candidate for the best one (`core.gate`)."""

    open: bool
    margin: float  # of the best value over the first candidate's
    threshold: float | None = None  # that it must exceed; None: no margin is enough
    level: int  # of `core.gate.FAMILIARITY`


class Scores(FrozenModel):
    """A score per candidate [N]; `state_value` is V(s) where the scorer has one."""

    values: tuple[float, ...]
    state_value: float | None = None
    checkpoint: str | None = Field(default=None, description="the Q-function they come from; None: from none")
    visits: tuple[int, ...] | None = Field(default=None, description="[N] as in `Decision`")
    feedback: tuple[float | None, ...] | None = Field(default=None, description="[N] as in `Decision`")
    gate: GateReading | None = Field(default=None, description="None: the first is best, or there is no gate")
    usage: tuple[Usage, ...] = ()

    @property
    def shut(self) -> bool:
        """Whether the first candidate is to be taken whatever the values say."""
        return self.gate is not None and not self.gate.open


class Choice(FrozenModel):
    """The selector's pick."""

    index: int
    explored: bool = False


class Located(FrozenModel):
    """What a localizer says: the point, or why there is none; and what it used, in both cases."""

    point: Point | None = Field(default=None, description="CSS pixels from the viewport's top left corner")
    refusal: str = Field(default="", description="why there is no point, in words for the acting model")
    usage: tuple[Usage, ...] = ()

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.point is None) == (not self.refusal):
            raise ValueError("give a point or a refusal, one of the two")
        return self


class Decision(FrozenModel):
    """ALL candidates, their scores [N], and which was taken. Both papers learn from it."""

    candidates: tuple[Candidate, ...] = Field(min_length=1)
    scores: tuple[float, ...]
    state_value: float | None = None
    chosen: int
    explored: bool = False
    scorer: str | None = Field(default=None, description="class of the scorer; None: from before it was recorded")
    checkpoint: str | None = Field(
        default=None, description="hash of the Q-function that scored; None: none did, or it was not recorded"
    )
    visits: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] | None = Field(
        default=None, description="[N] rollouts through each; None: none searched, or it was not recorded"
    )
    feedback: tuple[float | None, ...] | None = Field(
        default=None, description="[N] what a search ranked each by, Q̂ (Agent Q, 5.1.1); None: as visits, or no ranker"
    )
    gate: GateReading | None = Field(default=None, description="as in `Scores`")
    propensities: tuple[float, ...] | None = Field(
        default=None, description="[N] with what probability each was taken; None: as the agent's name says"
    )
    usage: tuple[Usage, ...] = Field(default=(), description="of the agent")
    log: str | None = Field(default=None, description="more that an imported log says of the step, as JSON")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        count = len(self.candidates)
        for name in ("scores", "visits", "feedback", "propensities"):
            if (numbers := getattr(self, name)) is not None and len(numbers) != count:
                raise ValueError(f"{count} candidates but {len(numbers)} {name}")
        if not 0 <= self.chosen < count:
            raise ValueError(f"chosen index {self.chosen} of {count} candidates")
        return self

    @property
    def candidate(self) -> Candidate:
        return self.candidates[self.chosen]


class State(FrozenModel):
    """What an agent may see: the task, its own past decisions, the current observation. Never a reward."""

    task: Task
    decisions: tuple[Decision, ...] = ()
    observation: Observation
    screenshots: tuple[Screenshot, ...] = Field(default=(), description="of earlier steps, oldest first")
    seed: int = Field(default=0, description="of the episode's draws: `episode_seed`")

    @property
    def step_seed(self) -> int:
        return step_seed(self.seed, len(self.decisions))


class StepResult(FrozenModel):
    """What an environment answers to an action."""

    observation: Observation
    reward: float | None = Field(default=0.0, ge=0.0, le=1.0, description="None: the environment cannot tell")
    terminated: bool = Field(default=False, description="the task itself has ended")
    truncated: bool = Field(default=False, description="the infrastructure cut it off")


class Step(FrozenModel):
    """One turn of an episode: what was seen, weighed and done, and what it brought."""

    index: int = Field(ge=0)
    observation: Observation
    decision: Decision
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


def state_at(task: Task, before: Sequence[Step], observation: Observation, *, seed: int = 0) -> State:
    """What an agent sees after the steps `before`. `seed` is needed only where something will be drawn."""
    decisions = tuple(step.decision for step in before)
    shots = tuple(shot for step in before if (shot := step.observation.screenshot))
    return State(task=task, decisions=decisions, observation=observation, screenshots=shots, seed=seed)


class Verdict(FrozenModel):
    """How an episode ended."""

    reward: float = Field(ge=0.0, le=1.0)
    outcome: Outcome
    reason: str = ""
    judge: str = Field(default="", description="name of the judge who gave it; empty: the environment or the rollout")
    usage: tuple[Usage, ...] = Field(default=(), description="of the judge, or of a last decision that was not made")
    replies: tuple[str, ...] | None = Field(default=None, description="of a last proposal without a valid action")

    @property
    def unstepped(self) -> tuple[Usage, ...]:
        """What the agent used for a decision that led to no step."""
        return () if self.judge else self.usage


class Provenance(FrozenModel):
    """Where an episode comes from, enough to make it again."""

    version: str
    commit: str | None = None
    config_hash: str = ""
    prompt_hash: str = ""
    seed: int = Field(default=0, description="of a run: the settings'; of an episode: that of its draws")
    started_at: str = Field(default="", description="ISO 8601, UTC")
    command: str = Field(default="", description="what was typed to begin it; empty: not known")
    log: str | None = Field(default=None, description="more that an imported log says of the episode, as JSON")


class Episode(FrozenModel):
    """A task, the steps taken, and the verdict; `final` is the observation after the last step."""

    id: str
    run: str = Field(description="the pass over a suite that it belongs to")
    agent: str
    task: Task
    steps: tuple[Step, ...]
    final: Observation | None = None
    verdict: Verdict
    provenance: Provenance

    @property
    def usage(self) -> tuple[Usage, ...]:
        """What the agent used: at its steps, and for a last decision that was not made. Not the judge's."""
        return (*(used for step in self.steps for used in step.decision.usage), *self.verdict.unstepped)
