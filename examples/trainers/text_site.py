"""The shop, the booking site and the sites with quirks for other trainers: visits without asyncio."""

from bestofq.agents.prompting import state_text
from bestofq.core.actions import Action
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Suite
from bestofq_sites.local_site.suite import LocalSuite
from bestofq_sites.local_site.text import TextEnv, at_once

SPLITS: tuple[Split, ...] = ("train", "dev", "test")


class TextSite:
    """A site played as text. An episode ends as the site ends it, by an answer, or at the step limit, which earns 0."""

    def __init__(self, suite: Suite) -> None:
        """ConfigError where the suite is no local site."""
        if not isinstance(suite, LocalSuite):
            raise ConfigError(f"{suite.name} cannot be played as text: take webshop, booking or quirks")
        self._suite = suite
        self._env = TextEnv(suite.rules)
        self._named: dict[str, Task] = {}
        self.task: Task | None = None
        self.steps, self.reward, self.ended = 0, 0.0, True
        self.seen = Observation(url="", title="", text="", elements=())

    @property
    def name(self) -> str:
        return self._suite.name

    def tasks(self, split: Split) -> list[Task]:
        """As `Suite.tasks`. DataError for any other word than train, dev or test."""
        if split not in SPLITS:
            raise DataError(f"there is no split {split!r}: it is one of {', '.join(SPLITS)}")
        return self._suite.rules.tasks(split)

    def find_task(self, task_id: str) -> Task:
        """Return the task of this id. DataError if there is none."""
        if not self._named:
            self._named = {task.id: task for split in SPLITS for task in self.tasks(split)}
        if task_id not in self._named:
            raise DataError(f"{self.name} has no task {task_id!r}: `bestofq tasks {self.name}` names them")
        return self._named[task_id]

    def reset(self, task: Task) -> Observation:
        """Begin a task; its first page."""
        self.task, self.steps, self.reward, self.ended = task, 0, 0.0, False
        self.seen = at_once(self._env.reset(task, seed=task.seed))
        return self.seen

    def act(self, action: Action) -> Observation:
        """The page after an action; once the episode has ended the last page, as it was. DataError before a reset."""
        if self.task is None:
            raise DataError(f"{self.name} has no episode: reset it first")
        if not self.ended:
            result = at_once(self._env.step(action))
            self.steps, self.seen = self.steps + 1, result.observation
            self.reward = (result.reward or 0.0) if result.terminated else 0.0
            self.ended = result.terminated or self.steps >= self._suite.step_limit
        return self.seen

    @property
    def text(self) -> str:
        """Goal and current page as our own models read them, notices and errors included. DataError before a reset."""
        if self.task is None:
            raise DataError(f"{self.name} has no episode: reset it first")
        return state_text(State(task=self.task, observation=self.seen))
