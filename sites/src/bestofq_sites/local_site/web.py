"""A local site in a real browser: Chromium visits it; the reward comes from the site's own records."""

from dataclasses import dataclass
from typing import Generic

from bestofq.browser.actions import write
from bestofq.browser.browser import Browser
from bestofq.core.actions import Action, Goto, Write
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq.envs.web import WebEnv
from bestofq_sites.local_site.rules import ViewT, VisitT
from bestofq_sites.local_site.server import SiteProcess


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Generic[VisitT]):
    """The browser's part of an episode and the site's."""

    task: Task
    root: str
    history: tuple[str, ...]
    scrolled: float  # CSS pixels down the page
    observation: Observation
    visit: VisitT


class LocalWebEnv(WebEnv, Generic[VisitT, ViewT]):
    """`Env` and `Checkpointable` over a `Site` and a `Browser`; an agent reads the very words of `text.TextEnv`."""

    def __init__(self, site: SiteProcess[VisitT, ViewT], browser: Browser, *, screenshots: bool = False) -> None:
        super().__init__(browser, screenshots=screenshots, user=self._reply)
        self._site = site

    @property
    def visit(self) -> VisitT:
        """The site's record. RuntimeError before the first reset."""
        self._require_task()
        return self._site.visits[self.root][1]

    @property
    def view(self) -> ViewT:
        """What the current page shows. RuntimeError before the first reset."""
        task, seen = self._require_task()
        return self._site.rules.server(task.split).view(self.visit, seen.url)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self._site.visits.pop(self.root, None)
        self.root = self._site.open_visit(task)
        visiting = task.model_copy(update={"start_url": f"{self.root}/", "allowed_hosts": ("127.0.0.1",)})
        return await super().reset(visiting, seed=seed)

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. What ends the visit ends the episode; the reward is what the site's record says."""
        (task, _), rules = self._require_task(), self._site.rules
        if isinstance(action, Goto) and action.url.startswith("/"):
            url = rules.server(task.split).address(action.url)
            action = action if url is None else Goto(url=self.root + url)
        result = await super().step(action)
        ended = result.terminated or rules.is_over(self.visit)
        return result.model_copy(update={"reward": rules.reward(task, self.visit), "terminated": ended})

    async def save(self) -> Saved[VisitT]:
        task, seen = self._require_task()
        history, scrolled = await self.session.history(), await self.session.evaluate("scrollY")
        return Saved(task=task, root=self.root, history=history, scrolled=scrolled, observation=seen, visit=self.visit)

    async def restore(self, saved: object) -> Observation:
        """Put the site's record back, then the page, error and notices, in a visit of its own, whoever saved them."""
        assert isinstance(saved, Saved)
        if self._task is None:
            await self.reset(saved.task, seed=0)
        self._task = saved.task
        self._site.visits[self.root] = saved.task, saved.visit
        await self.session.restore([url.replace(saved.root, self.root, 1) for url in saved.history])
        fresh = {element.mark: element.value for element in (await self.session.snapshot()).elements}
        for element in saved.observation.elements:
            if element.role in ("textbox", "searchbox") and element.value != fresh.get(element.mark):
                text = element.value or ""
                await write(self.session.tab, Write(mark=element.mark, text=text), text)
        await self.session.evaluate(f"scrollTo(0, {saved.scrolled})")
        seen = await self._look(saved.observation.error, saved.observation.notices)
        self._site.visits[self.root] = saved.task, saved.visit
        return seen

    async def close(self) -> None:
        self._site.visits.pop(self.root, None)
        await super().close()

    async def _look(self, error: str | None, notices: tuple[str, ...] = ()) -> Observation:
        """As the site's text shows it: its rules know what is irreversible, and need not be told where links lead."""
        seen = await super()._look(error, notices)
        plain = (one.model_copy(update={"href": None, "shown": None}) for one in seen.elements)
        self.observation = seen.model_copy(update={"elements": tuple(plain)})
        return self.observation

    def _require_task(self) -> tuple[Task, Observation]:
        if self._task is None or self.observation is None:
            raise RuntimeError("the environment has no episode; reset it first")
        return self._task, self.observation

    async def _reply(self, question: str) -> str | None:
        return self._site.rules.reply(self._require_task()[0], question)
