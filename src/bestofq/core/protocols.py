"""The verbs: what each part of an agent and its world must be able to do. Async where there is I/O."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import numpy as np

from bestofq.core.actions import Action
from bestofq.core.decision import Candidate, Choice, Episode, Located, Proposal, Scores, State, StepResult, Verdict
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.language import Generation, Request
from bestofq.core.observation import Observation, Screenshot, Split, Task
from bestofq.core.picture import Picture
from bestofq.core.transitions import Floats
from bestofq.core.usage import Usage


@runtime_checkable
class HoldsBack(Protocol):
    """An environment that reads its page again at the press, and carries out nothing that is held back then."""

    held_back: Callable[[Observation, Action], bool] | None


class Env(Protocol):
    """A world of tasks. One instance runs one episode at a time and may be reset again."""

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the task; `seed` is its own (`Task.seed`), so that each run begins on the same page."""

    async def step(self, action: Action) -> StepResult: ...

    async def close(self) -> None: ...


@runtime_checkable
class Checkpointable(Protocol):
    """An environment that can be put back to where it was, and played on from there another way (Agent Q, 5.1.2)."""

    async def save(self) -> object:
        """All that the rest of the episode depends on; opaque, good in every environment of the same world."""

    async def restore(self, saved: object) -> Observation:
        """Go back to what `save` gave, any number of times, in any order; the observation there."""


class LanguageModel(Protocol):
    """Replies to messages: `models.local.LocalModel`, or `models.chat.ChatModel` behind an endpoint."""

    @property
    def name(self) -> str: ...

    async def generate(self, request: Request) -> Generation:
        """As many replies as the request draws. ContextError where it is too long for the model, ModelError where the
        model cannot reply, ConfigError where a setting must be changed first."""


class VisionModel(LanguageModel, Protocol):
    """A language model that also reads the pictures of messages, each in a size of its own."""

    async def picture(self, screenshot: Screenshot, pixels: int | None = None) -> Picture:
        """The screenshot as a request with these `pixels` sends it; maps points of a reply to the page."""


@runtime_checkable
class Proposer(Protocol):
    """Offers 1 to n candidates, the first its greedy choice, all with distinct actions."""

    async def propose(self, state: State, n: int) -> Proposal: ...


@runtime_checkable
class Samples(Protocol):
    """A proposer that can draw one action, as rollouts do (Agent Q, 5.1.2). Other proposers give their first."""

    async def sample(self, state: State) -> Proposal: ...


@runtime_checkable
class Scorer(Protocol):
    """Values candidates: one score each, higher is better."""

    async def score(self, state: State, candidates: Sequence[Candidate]) -> Scores: ...


@runtime_checkable
class Remembers(Protocol):
    """A scorer that remembers an episode while it is played. `seed` is that of the episode's draws (`State.seed`)."""

    async def resume(self, task: Task, seed: int, pages: Sequence[Observation]) -> None:
        """Get the pages at which decisions were made before a process died."""

    async def forget(self, task: Task, seed: int) -> None:
        """Let go of the episode: it has ended, or was cut."""


@runtime_checkable
class Prefetching(Protocol):
    """A scorer that can begin on a state while the proposer is thinking. `score` does not count that again."""

    async def prepare(self, state: State) -> tuple[Usage, ...]: ...


class Picker(Protocol):
    """Names the best of two or more candidates."""

    async def pick(self, state: State, candidates: Sequence[Candidate]) -> tuple[int | None, Usage]:
        """Its index, None where what it named is none of them (`Usage.unusable` counts that), and what it used."""


class Selector(Protocol):
    """Picks an index from scores [N]."""

    def select(self, scores: Floats, rng: np.random.Generator) -> Choice: ...


class Localizer(Protocol):
    """Finds the point of an element described in words (Best-of-Q, A.1), or says in words why it cannot."""

    async def locate(self, observation: Observation, target: str) -> Located: ...


class Embedder(Protocol):
    """Turns items into vectors [B, D], and says how many tokens it read and wrote for them (0 where all were known)."""

    spec: EmbedSpec

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]: ...


@runtime_checkable
class Judge(Protocol):
    """Gives an episode that ended by itself its verdict, which is kept under the judge's name."""

    @property
    def name(self) -> str: ...

    async def judge(self, episode: Episode) -> Verdict: ...


class Rated(Protocol):
    """A step whose candidates are rated good or not."""

    @property
    def task(self) -> Hashable: ...

    @property
    def good(self) -> Sequence[bool]: ...

    @property
    def chosen(self) -> int: ...


EnvFactory = Callable[[], Awaitable[Env]]


@runtime_checkable
class Suite(Protocol):
    """A benchmark: tasks, and the environments they are done in."""

    @property
    def name(self) -> str: ...

    @property
    def step_limit(self) -> int:
        """Steps an episode may take where the settings do not say."""

    @property
    def sandboxed(self) -> bool:
        """Whether irreversible actions harm nobody, since the site is the suite's own."""

    @property
    def needs_judge(self) -> bool:
        """Whether the environments give no reward, so that a judge must say how episodes ended."""

    @property
    def judge(self) -> Judge | None:
        """The suite's own judge; None: the one that the settings name, where it needs one."""

    async def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split, in an order in which the first are a fair sample. Whether the suite is open or not."""

    def open(self) -> AbstractAsyncContextManager[EnvFactory]:
        """What makes environments, until the context ends."""


@runtime_checkable
class KnowsIrreversible(Protocol):
    """A suite that knows which actions cannot be taken back. For others `safety.irreversible` guesses by the page."""

    def irreversible(self, observation: Observation, action: Action) -> bool: ...
