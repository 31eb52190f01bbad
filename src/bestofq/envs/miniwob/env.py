"""A MiniWoB++ task as an environment: its page in Chromium, its own script as the judge."""

import json
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from bestofq.browser.session import PageSource, Session
from bestofq.core.actions import Action
from bestofq.core.decision import StepResult
from bestofq.core.errors import BrowserError, InfraError, InputError
from bestofq.core.observation import Observation, Task
from bestofq.envs.web import WebEnv

HOSTS = ("127.0.0.1",)
_SCRIPT = files(__package__).joinpath("episode.js").read_text("utf-8").strip()


class Standing(NamedTuple):
    left: bool = False  # the page shown is not the task's
    begun: bool = False  # just now: the document is new
    goal: str = ""
    done: bool = False
    raw: float = 0.0  # -1 to 1, without the page's penalty for time


class MiniWobEnv:
    """`core.protocols.Env` over the site that `suite.MiniWob.open` serves at `root`.

    The instance is the task's own: `reset` takes the seed from `Task.start_url`, and its `seed` argument changes
    nothing. What is for human players (reward display, countdown, start cover) is hidden, and a page's 10 to 60 s run
    out after 24 days: a model takes seconds a step (as BrowserGym, `browsergym.miniwob`). A page that is loaded anew
    begins the same instance anew; leaving it for another page ends the episode with 0.

    The reward is 1 where the page's own raw reward is above 0, else 0, as BrowserGym and the literature count success;
    the raw one (-1 to 1, no penalty for time) stays readable at `raw_reward`.
    """

    def __init__(self, root: str, browser: PageSource, *, screenshots: bool = False) -> None:
        prepare, evaluate = self._prepare, self._evaluate
        self._web = WebEnv(browser, screenshots=screenshots, root=root, prepare=prepare, evaluate=evaluate)
        self._task: Task | None = None
        self._instance = ("", 0)
        self._standing = Standing()
        self._ended = False

    @property
    def raw_reward(self) -> float:
        """The page's own reward at the last step, -1 to 1; 0 before the end."""
        return self._standing.raw

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A fresh page with the task's instance begun.

        Raises InputError when the task's start URL names no instance, InfraError when the page asks for another thing
        than `Task.goal` says (another version of the pages), BrowserError when it does not load.
        """
        self._task, self._instance, self._standing, self._ended = task, instance_of(task), Standing(), False
        visiting = task.model_copy(update={"start_url": self._web.root + task.start_url, "allowed_hosts": HOSTS})
        return await self._web.reset(visiting, seed=seed)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. BrowserError before the first reset, after the end, and when the browser fails."""
        if self._ended:
            raise BrowserError("The episode has ended; reset the environment first.")
        result = await self._web.step(action)
        self._ended = result.terminated
        return result

    async def close(self) -> None:
        await self._web.close()

    async def _prepare(self, session: Session) -> None:
        assert self._task is not None
        standing = await read(session, *self._instance)
        if standing.begun:
            if standing.goal != self._task.goal:
                raise InfraError(f"{self._task.id} asks {standing.goal!r}, but the task's goal is {self._task.goal!r}")
            await session.settle()

    async def _evaluate(self, task: Task, action: Action, seen: Observation) -> tuple[float, bool]:
        self._standing = standing = await read(self._web.session, *self._instance)
        return float(standing.raw > 0), standing.done or standing.left


def instance_of(task: Task) -> tuple[str, int]:
    """The path of a task's page and the seed of its problem, from its start URL. Raises InputError."""
    parts = urlsplit(task.start_url)
    seed = parse_qs(parts.query).get("seed", [""])[0]
    if not seed.isdecimal():
        raise InputError(f"Task {task.id} starts at {task.start_url!r}, which names no seed (…?seed=17).")
    return parts.path, int(seed)


async def read(session: Session, path: str, seed: int) -> Standing:
    """How the episode stands in the session's page; begins it with `seed` where the document is new.

    Raises BrowserError when the page has no task ready within the browser's `navigation` seconds.
    """
    patience = round(session.config.navigation * 1000)
    answer = await session.evaluate(f"{_SCRIPT}({json.dumps(path)}, {seed}, {patience})")
    if answer["left"]:
        return Standing(left=True)
    return Standing(
        begun=answer["begun"], goal=_goal(answer["utterance"]), done=answer["done"], raw=float(answer["raw"])
    )


def _goal(utterance: Any) -> str:
    """An utterance as one line: its text where the page adds its fields, a flight's JSON in words."""
    if isinstance(utterance, dict):
        utterance = utterance["utterance"]
    text = " ".join(str(utterance).split())
    if text.startswith("{") and text.endswith("}"):
        return "Book a flight. " + ", ".join(f"{key}: {value}" for key, value in json.loads(text).items())
    return text
