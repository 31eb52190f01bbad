"""Any web page as an environment: what the browser does, plus the actions that are not the browser's."""

from collections.abc import Awaitable, Callable

from bestofq.browser.session import PageSource, Place, Session
from bestofq.core.actions import Action, Answer, AskUser, Targeted, action_text
from bestofq.core.decision import StepResult
from bestofq.core.errors import BrowserError
from bestofq.core.irreversible import element_of, irreversible
from bestofq.core.observation import Observation, Task

User = Callable[[str], Awaitable[str | None]]
"""A question → the reply, or None where nobody is there to reply."""
Approve = Callable[[str], Awaitable[bool]]
"""What seems irreversible, in one sentence → whether it may be done."""
Evaluator = Callable[[Task, Action, Observation], Awaitable[tuple[float, bool]]]
"""(task, action, observation after it) → (reward in [0, 1], terminated). Called after every step."""
Preparation = Callable[[Session], Awaitable[None]]
"""Called each time before the page is read: for suites whose pages need a script run first."""


class WebEnv:
    """`core.protocols.Env` over a browser.

    `answer` ends the episode; `ask_user` puts the question to `user`, whose reply is a notice in the next observation;
    targets in words are the agent's to place (`Agent.localizer`). Where `approve` is given, it is asked before each
    action that seems irreversible (`core.irreversible`); its refusal is an error in the next observation. The reward is
    what `evaluate` says, and None without it: then a judge must say how the episode ended. Exceptions are the
    machinery's (BrowserError); what the agent cannot do is `Observation.error`.
    """

    def __init__(
        self,
        browser: PageSource,
        *,
        screenshots: bool,
        root: str = "",
        prepare: Preparation | None = None,
        evaluate: Evaluator | None = None,
        user: User | None = None,
        approve: Approve | None = None,
    ) -> None:
        self._session: Session = browser.page()
        self.root = root  # what the URLs of observations leave out: a local site's differs from visit to visit
        self.observation: Observation | None = None  # the last
        self._screenshots = screenshots
        self._prepare = prepare
        self._evaluate = evaluate
        self._user = user
        self._approve = approve
        self._task: Task | None = None

    @property
    def session(self) -> Session:
        return self._session

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """A clean page at the task's start URL, held to its allowed hosts; `seed` is not the web's to obey."""
        await self._session.reset(task.start_url, task.allowed_hosts)
        self._task = task
        return await self._look(None)

    async def step(self, action: Action) -> StepResult:
        """Carries out one action. Raises BrowserError before the first reset and when the browser fails."""
        if self._task is None or self.observation is None:
            raise BrowserError("The environment has no episode; reset it first.")
        notices: tuple[str, ...] = ()
        error: str | None = None
        match action:
            case Answer():
                pass
            case AskUser():
                reply = await self._user(action.question) if self._user else None
                error = None if reply is not None else "There is no user to ask."
                notices = () if reply is None else (f"The user replied: {reply}",)
            case _:
                error = await self._refused(action, self.observation) or await self._session.act(action)
        observation = await self._look(error, notices)
        reward: float | None = None
        terminated = isinstance(action, Answer)
        if self._evaluate is not None:
            reward, ended = await self._evaluate(self._task, action, observation)
            terminated = terminated or ended
        return StepResult(observation=observation, reward=reward, terminated=terminated)

    async def save_page(self) -> Place:
        """What the browser holds of the episode; for environments that can put back what the site remembers too.

        Raises BrowserError before the first reset.
        """
        if self.observation is None:
            raise BrowserError("The environment has no episode; reset it first.")
        return await self._session.place(self.observation)

    async def restore_page(self, place: Place) -> Observation:
        """Shows a page of the episode again; its error and notices stand again too."""
        await self._session.put_back(place)
        return await self._look(place.observation.error, place.observation.notices)

    async def close(self) -> None:
        self._task = self.observation = None
        await self._session.close()

    async def _refused(self, action: Action, observation: Observation) -> str | None:
        """Why the user does not let it be done, for the agent; None where it may be done."""
        reason = None if self._approve is None else irreversible(action, observation)
        if self._approve is None or reason is None:
            return None
        under = element_of(action, observation) if isinstance(action, Targeted) else None
        named = action if under is None else action.model_copy(update={"point": None, "mark": under.mark})
        said = action_text(named, observation.elements)
        if await self._approve(f"The next action, {said}, seems to {reason}."):
            return None
        return f"The user did not allow {said}, which seems to {reason}. Find another way, or answer."

    async def _look(self, error: str | None, notices: tuple[str, ...] = ()) -> Observation:
        if self._prepare is not None:
            await self._prepare(self._session)
        seen = await self._session.snapshot(screenshot=self._screenshots, error=error)
        behind = {"url": seen.url.removeprefix(self.root), "notices": (*seen.notices, *notices)}
        self.observation = seen.model_copy(update=behind)
        return self.observation
