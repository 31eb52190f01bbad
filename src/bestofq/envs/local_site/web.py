"""A local site in a real browser: Chromium visits it; the reward comes from the site's own records."""

from dataclasses import dataclass
from typing import Generic

from bestofq.browser.session import PageSource, Place
from bestofq.core.actions import Action, Goto
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq.envs.local_site.rules import ViewT, VisitT
from bestofq.envs.local_site.server import Site
from bestofq.envs.web import WebEnv


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Generic[VisitT]):
    """The browser's part of an episode and the site's."""

    task: Task
    root: str
    place: Place
    visit: VisitT


class LocalWebEnv(Generic[VisitT, ViewT]):
    """`Env` and `Checkpointable` over a `Site` and a `Browser`. What an agent reads is word for word what
    `text.TextEnv` shows."""

    def __init__(self, site: Site[VisitT, ViewT], browser: PageSource, *, screenshots: bool = False) -> None:
        self._site = site
        self._web = WebEnv(browser, screenshots=screenshots, user=self._reply)
        self._task: Task | None = None

    @property
    def visit(self) -> VisitT:
        """The site's record. RuntimeError before the first reset."""
        self._playing()
        return self._site.visit(self._web.root)

    @property
    def view(self) -> ViewT:
        """What the current page shows. RuntimeError before the first reset."""
        seen = self._web.observation
        return self._site.rules.server(self._playing().split).view(self.visit, "" if seen is None else seen.url)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._leave()
        self._task, self._web.root = task, self._site.open_visit(task)
        visiting = task.model_copy(update={"start_url": f"{self._web.root}/", "allowed_hosts": ("127.0.0.1",)})
        return await self._web.reset(visiting, seed=seed)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. What ends the visit ends the episode; the reward is what the site's record says."""
        task = self._playing()
        if isinstance(action, Goto) and action.url.startswith("/"):
            url = self._site.rules.server(task.split).address(action.url)
            action = action if url is None else Goto(url=self._web.root + url)
        result = await self._web.step(action)
        visit = self.visit
        return result.model_copy(
            update={
                "reward": self._site.rules.reward(task, visit),
                "terminated": result.terminated or self._site.rules.ended(visit),
            }
        )

    async def save(self) -> Saved[VisitT]:
        task = self._playing()
        return Saved(task=task, root=self._web.root, place=await self._web.save_page(), visit=self.visit)

    async def restore(self, saved: object) -> Observation:
        """Put the site's record back, then the page: in a visit of its own, whoever saved them. What the site then
        records by itself is the same again."""
        assert isinstance(saved, Saved)
        if self._task is None:
            await self.reset(saved.task, seed=0)
        self._task = saved.task
        self._site.put(self._web.root, saved.task, saved.visit)
        seen = await self._web.restore_page(saved.place.moved(saved.root, self._web.root))
        self._site.put(self._web.root, saved.task, saved.visit)
        return seen

    async def close(self) -> None:
        self._leave()
        await self._web.close()

    def _playing(self) -> Task:
        if self._task is None:
            raise RuntimeError("the environment has no episode; reset it first")
        return self._task

    def _leave(self) -> None:
        if self._task is not None:
            self._site.close_visit(self._web.root)
        self._task = None

    async def _reply(self, question: str) -> str | None:
        return self._site.rules.reply(self._playing(), question)
