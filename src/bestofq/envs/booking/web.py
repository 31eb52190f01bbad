"""The booking site in a real browser: Chromium visits it; the reward comes from the site's own records."""

from dataclasses import dataclass

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Goto
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq.envs.booking.site import Site
from bestofq.envs.booking.user import reply
from bestofq.envs.booking.views import View
from bestofq.envs.booking.visits import Visit
from bestofq.envs.web import SavedPage, WebEnv


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """The browser's part and the site's."""

    task: Task
    root: str
    page: SavedPage
    visit: Visit


class BookingEnv:
    """`Env` and `Checkpointable` over a `Site` and a `Browser`. What an agent reads is word for word what
    `text.TextEnv` shows."""

    def __init__(self, site: Site, browser: Browser, *, screenshots: bool = False) -> None:
        self._site = site
        self._web = WebEnv(browser, screenshots=screenshots, user=self._reply)
        self._root = ""
        self._task: Task | None = None
        self._url = ""  # of the current page, behind the root

    @property
    def visit(self) -> Visit:
        """The site's record. RuntimeError before the first reset."""
        if self._task is None:
            raise RuntimeError("step before reset")
        return self._site.visit(self._root)

    @property
    def view(self) -> View | None:
        """What the current page shows; None where the site has no such page."""
        return self._site.suite.server(self.visit.split).view(self.visit, self._url)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Open a new visit at the start page."""
        self._leave()
        self._task, self._root = task, self._site.open_visit(task)
        visiting = task.model_copy(update={"start_url": f"{self._root}/", "allowed_hosts": ("127.0.0.1",)})
        return self._relative(await self._web.reset(visiting, seed=seed))

    async def step(self, action: Action) -> StepResult:
        """Carry out one action; a reservation ends the episode and earns what the site's record says."""
        if self._task is None:
            raise RuntimeError("step before reset")
        if isinstance(action, Goto) and action.url.startswith("/"):
            action = Goto(url=self._root + action.url)
        result = await self._web.step(action)
        visit = self.visit
        return result.model_copy(
            update={
                "observation": self._relative(result.observation),
                "reward": self._site.suite.reward(self._task, visit),
                "terminated": result.terminated or visit.reservation is not None,
            }
        )

    async def save(self) -> Saved:
        visit = self.visit
        assert self._task is not None
        return Saved(task=self._task, root=self._root, page=await self._web.save_page(), visit=visit)

    async def restore(self, saved: object) -> Observation:
        """Put the site's record back, then the page: in a visit of its own, whoever saved them. What the site then
        records by itself is the same again."""
        assert isinstance(saved, Saved)
        if self._task is None:
            await self.reset(saved.task, seed=0)
        self._task = saved.task
        self._site.put(self._root, saved.visit)
        seen = await self._web.restore_page(saved.page.moved(saved.root, self._root))
        self._site.put(self._root, saved.visit)
        return self._relative(seen)

    async def close(self) -> None:
        self._leave()
        await self._web.close()

    def _leave(self) -> None:
        if self._task is not None:
            self._site.close_visit(self._root)
        self._task, self._root = None, ""

    async def _reply(self, question: str) -> str:
        assert self._task is not None
        return reply(self._site.suite.goal(self._task.id), question)

    def _relative(self, observation: Observation) -> Observation:
        """With the URL behind the visit's root, which differs from visit to visit."""
        self._url = observation.url.removeprefix(self._root)
        return observation.model_copy(update={"url": self._url})
