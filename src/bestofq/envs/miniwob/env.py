"""A MiniWoB++ task as an environment: its page in Chromium, its own script as the judge."""

import json
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
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


class MiniWobEnv(WebEnv):
    """`core.protocols.Env` over the site that `suite.MiniWob.open` serves at `root`.

    The seed is in `Task.start_url`; the `seed` of `reset` changes nothing. Reward display, countdown and start cover
    are hidden. A page's 10 to 60 s last 24 days, because a model takes seconds a step (as `browsergym.miniwob`). A
    reloaded page begins the same instance again. Leaving it for another page ends the episode with 0.

    The reward is 1 if the page's raw reward is above 0, else 0, as BrowserGym and the literature count success. The raw
    reward (-1 to 1, no penalty for time) is at `standing.raw`.
    """

    def __init__(self, root: str, browser: Browser, *, screenshots: bool = False) -> None:
        super().__init__(browser, screenshots=screenshots)
        self.root = root
        self.standing = Standing()  # at the last step
        self._instance = ("", 0)
        self._ended = False

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A fresh page with the task's instance begun. InputError if its start URL names no instance, InfraError if the
        page's goal is not `Task.goal`, BrowserError if it does not load."""
        self._instance, self.standing, self._ended = instance_of(task), Standing(), False
        visiting = task.model_copy(update={"start_url": self.root + task.start_url, "allowed_hosts": HOSTS})
        return await super().reset(visiting, seed=seed)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. BrowserError before the first reset, after the end, and if the browser fails."""
        if self._ended:
            raise BrowserError("The episode has ended; reset the environment first.")
        result = await super().step(action)
        self.standing = await read(self.session, *self._instance)
        self._ended = result.terminated or self.standing.done or self.standing.left
        return result.model_copy(update={"reward": float(self.standing.raw > 0), "terminated": self._ended})

    async def _look(self, error: str | None, notices: tuple[str, ...] = ()) -> Observation:
        standing = await read(self.session, *self._instance)
        if standing.begun and (task := self._task):
            if standing.goal != task.goal:
                raise InfraError(f"{task.id} asks {standing.goal!r}, but the task's goal is {task.goal!r}")
            await self.session.settle()
        return await super()._look(error, notices)


def instance_of(task: Task) -> tuple[str, int]:
    """The path of a task's page and the seed of its problem, from its start URL. Raises InputError."""
    parts = urlsplit(task.start_url)
    seed = parse_qs(parts.query).get("seed", [""])[0]
    if not seed.isdecimal():
        raise InputError(f"Task {task.id} starts at {task.start_url!r}, which names no seed (…?seed=17).")
    return parts.path, int(seed)


async def read(session: BrowserSession, path: str, seed: int) -> Standing:
    """The episode's state in the session's page. Begins it with `seed` if the document is new. BrowserError if the page
    has no task ready within the browser's `load_patience` seconds."""
    patience = round(session.config.load_patience * 1000)
    answer = await session.evaluate(f"{_SCRIPT}({json.dumps(path)}, {seed}, {patience})")
    if answer["left"]:
        return Standing(left=True)
    goal = _goal(answer["utterance"])
    return Standing(begun=answer["begun"], goal=goal, done=answer["done"], raw=float(answer["raw"]))


def _goal(utterance: Any) -> str:
    """An utterance as one line: without the fields that a page may add, a flight's JSON in words."""
    if isinstance(utterance, dict):
        utterance = utterance["utterance"]
    text = " ".join(str(utterance).split())
    if text.startswith("{") and text.endswith("}"):
        return "Book a flight. " + ", ".join(f"{key}: {value}" for key, value in json.loads(text).items())
    return text
