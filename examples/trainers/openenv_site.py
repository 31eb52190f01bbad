"""A text site as an OpenEnv environment, served over HTTP and WebSocket (package and extra `openenv`).

`uvicorn --factory examples.trainers.openenv_site:shop` serves the shop, `:build_booking` the booking site. An action is
a command, `{"command": "click [7]"}`, as in `agents/dialects/commands.py`. `reset` takes a `split` and an `index`, or a
`task` by its id. Without any it takes the train task number `seed`, by default the first.
"""

from typing import Any
from uuid import uuid4

from bestofq.agents.dialects.commands import parse_action
from bestofq.core.actions import Other
from bestofq.core.errors import DataError, ReplyError
from bestofq.core.loading import extra
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Suite
from bestofq.envs.suites import make_suite
from bestofq_sites.booking.settings import BookingSettings
from bestofq_sites.webshop.settings import WebShopSettings

from .text_site import SPLITS, TextSite

extra("openenv")
from openenv.core.env_server.http_server import create_fastapi_app  # noqa: E402
from openenv.core.env_server.interfaces import Environment  # noqa: E402
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State  # noqa: E402


class SiteAction(Action):
    """One command, such as `click [7]`, `write [1] "text" enter`, `back` or `answer "text"`."""

    command: str


class SiteObservation(Observation):
    """What is seen, in words. `text` has each element's mark after it. `reward` is given at the end, `done` says it."""

    goal: str
    url: str
    title: str
    text: str
    error: str | None = None
    notices: tuple[str, ...] = ()


class SiteEnvironment(Environment[SiteAction, SiteObservation, State]):
    """`openenv`'s Environment and TaskProvider. Sessions share nothing that changes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, suite: Suite) -> None:
        """ConfigError where the suite cannot be played as text."""
        super().__init__()
        self._site = TextSite(suite)
        self._episode = ""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **chosen: Any) -> SiteObservation:
        """Begin a task. DataError where there is none of that id, split or index."""
        self._episode = episode_id or uuid4().hex
        self._site.reset(self._chosen(seed or 0, **chosen))
        return self._seen()

    def _chosen(
        self, seed: int, *, split: Split = "train", index: int | None = None, task: str | None = None, **_: Any
    ) -> Task:
        if task is not None:
            return self._site.find_task(task)
        tasks = self._site.tasks(split)
        return self._at(split, seed % len(tasks) if index is None else index)

    def _at(self, split: Split, index: int) -> Task:
        tasks = self._site.tasks(split)
        if not 0 <= index < len(tasks):
            raise DataError(f"{self._site.name} has {len(tasks)} {split} tasks, from 0 on: there is no number {index}")
        return tasks[index]

    def step(self, action: SiteAction, timeout_s: float | None = None, **_: Any) -> SiteObservation:
        """Carry out a command; words that are none are a step too, with an `error`. DataError before a reset."""
        try:
            self._site.act(parse_action(action.command.strip()))
        except ReplyError as error:
            self._site.act(Other(text=action.command))
            return self._seen(error=str(error))
        return self._seen()

    @property
    def state(self) -> State:
        task = self._site.task
        return State(episode_id=self._episode, step_count=self._site.steps, task=task and task.id)

    def get_metadata(self) -> EnvironmentMetadata:
        name = self._site.name
        return EnvironmentMetadata(name=name, description=f"the {name} site of bestofq, as text", version="1")

    def list_splits(self) -> list[str]:
        return [*SPLITS]

    def num_tasks(self, split: Split) -> int:
        return len(self._site.tasks(split))

    def list_tasks(self, split: Split) -> list[dict[str, object]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task(self, split: Split, index: int) -> dict[str, object]:
        task = self._at(split, index)
        return {"id": task.id, "index": index, "goal": task.goal}

    def get_task_range(
        self, split: Split, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, object]]:
        return self.list_tasks(split)[start:stop]

    def _seen(self, error: str | None = None) -> SiteObservation:
        site, seen = self._site, self._site.seen
        return SiteObservation(
            goal=site.task.goal if site.task else "",
            error=error or seen.error,
            notices=seen.notices,
            reward=site.reward,
            done=site.ended,
            **{name: getattr(seen, name) for name in ("url", "title", "text")},
        )


def site_app(suite: Suite, *, sessions: int = 64) -> Any:
    """The ASGI app; at most so many WebSocket `sessions`, each with an episode of its own."""
    TextSite(suite)  # refuses others
    return create_fastapi_app(
        lambda: SiteEnvironment(suite),
        SiteAction,
        SiteObservation,
        max_concurrent_envs=sessions,
        env_name=suite.name,
    )


def shop() -> Any:
    """The synthetic shop."""
    return site_app(make_suite(WebShopSettings()))


def build_booking() -> Any:
    """The booking site."""
    return site_app(make_suite(BookingSettings()))
