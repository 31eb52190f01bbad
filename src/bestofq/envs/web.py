"""Any web page as an environment: what the browser does, plus the actions that are not the browser's."""

from collections.abc import Awaitable, Callable

from bestofq.browser.actions import Impossible
from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Action, Answer, AskUser, action_text, on_mark
from bestofq.core.decision import StepResult
from bestofq.core.errors import BrowserError
from bestofq.core.observation import Observation, Task
from bestofq.safety.irreversible import irreversible

User = Callable[[str], Awaitable[str | None]]  # a question → the reply, or None if there is nobody to reply
Approve = Callable[[str], Awaitable[bool]]  # a sentence on what seems irreversible → whether it may be done
Evaluator = Callable[[Task, Action, Observation], Awaitable[tuple[float, bool]]]
"""(task, action, observation after it) → (reward in [0, 1], terminated). Called after every step."""


class WebEnv:
    """`core.protocols.Env` over a browser.

    `answer` ends the episode. `ask_user` puts the question to `user`; the reply is a notice in the next observation.
    The agent places targets in words (`Agent.localizer`). `approve` decides on each action that seems irreversible
    (`safety.irreversible`), with `forms` also on each that sends a form. Its refusal is an error in the next
    observation, and so is what was `held_back`. `evaluate` gives the reward. Without it the reward is None, and a judge
    must decide. BrowserError is the machinery's; what the agent cannot do is `Observation.error`.
    """

    def __init__(
        self,
        browser: Browser,
        *,
        screenshots: bool,
        evaluate: Evaluator | None = None,
        user: User | None = None,
        approve: Approve | None = None,
        forms: bool = False,
    ) -> None:
        self.session = BrowserSession(browser)
        self.root = ""  # left out of observations' URLs: a local site's differs from visit to visit
        self.observation: Observation | None = None  # the last
        self._screenshots, self._evaluate, self._user = screenshots, evaluate, user
        self.approve, self._forms = approve, forms
        self._task: Task | None = None
        self.held_back: Callable[[Observation, Action], bool] | None = None  # set by whoever repeats actions

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A clean page at the task's start URL, held to its allowed hosts. The web does not obey `seed`."""
        await self.session.reset(task.start_url, task.allowed_hosts)
        self._task = task
        return await self._look(None)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. BrowserError before the first reset and if the browser fails."""
        if self._task is None or self.observation is None:
            raise BrowserError("The environment has no episode; reset it first.")
        notices: tuple[str, ...] = ()
        error: str | None = None
        if isinstance(action, AskUser):
            reply = await self._user(action.question) if self._user else None
            error = None if reply is not None else "There is no user to ask."
            notices = () if reply is None else (f"The user replied: {reply}",)
        elif not isinstance(action, Answer):
            error = await self._act(action, self.observation)
        observation = await self._look(error, notices)
        reward: float | None = None
        terminated = isinstance(action, Answer)
        if self._evaluate is not None:
            reward, ended = await self._evaluate(self._task, action, observation)
            terminated = terminated or ended
        return StepResult(observation=observation, reward=reward, terminated=terminated)

    async def close(self) -> None:
        self._task = self.observation = None
        await self.session.close()

    async def _act(self, action: Action, observation: Observation) -> str | None:
        """Carry it out if it is not held back, and if it seems reversible or `approve` allows it. This is checked when
        it is chosen and again at the press, because a page may change meanwhile. Why it was not done, or None."""
        if self.approve is None and self.held_back is None:
            return await self.session.act(action)
        allowed: set[tuple[str, str]] = set()

        async def may(action: Action, page: Observation) -> bool:
            words = action_text(on_mark(action, page), page.elements)
            if self.held_back is not None and self.held_back(page, action):
                raise Impossible(f"{words} seems irreversible; nothing was done.")
            reason = irreversible(action, page, forms=self._forms) if self.approve else None
            if reason is None:
                return True
            question = words, reason.partition(" (")[0]  # without the page's words
            if question in allowed:
                return True
            assert self.approve is not None
            if not await self.approve(f"The next action, {words}, seems to {reason}."):
                raise Impossible(
                    f"The user did not allow {words}, which seems to {reason}. Find another way, or answer."
                )
            allowed.add(question)
            return False

        try:
            await may(action, observation)
        except Impossible as refusal:
            return str(refusal)
        return await self.session.act(action, may)

    async def _look(self, error: str | None, notices: tuple[str, ...] = ()) -> Observation:
        seen = await self.session.snapshot(screenshot=self._screenshots, error=error)
        changes = {"url": seen.url.removeprefix(self.root), "notices": (*seen.notices, *notices)}
        self.observation = seen.model_copy(update=changes)
        return self.observation
