"""WebShop in a real browser: Chromium visits the site; the reward comes from the site's own records."""

from dataclasses import dataclass, replace

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq.envs.web import SavedPage, WebEnv
from bestofq.envs.webshop.site import Site, Visit, view_url


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """The browser's part of an episode and the site's."""

    page: SavedPage
    url: str
    visit: Visit


class WebShopEnv:
    """`Env` and `Checkpointable` over a `Site` and a `Browser`. What an agent reads is word for word what
    `text.TextEnv` shows."""

    def __init__(self, site: Site, browser: Browser, *, screenshots: bool = False) -> None:
        self._site = site
        self._web = WebEnv(browser, screenshots=screenshots)
        self._url: str | None = None
        self._visit: Visit | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Open a new visit at the search page."""
        self._leave()
        self._url, self._visit = self._site.open_visit(task)
        visiting = task.model_copy(update={"start_url": self._url, "allowed_hosts": ("127.0.0.1",)})
        return _relative(await self._web.reset(visiting, seed=seed))

    async def step(self, action: Action) -> StepResult:
        """Carry out one action; buying ends the episode and earns what the site's record says."""
        if self._visit is None:
            raise RuntimeError("step before reset")
        result = await self._web.step(action)
        bought = self._visit.bought is not None
        return result.model_copy(
            update={
                "observation": _relative(result.observation),
                "reward": self._site.reward(self._visit),
                "terminated": result.terminated or bought,
            }
        )

    async def save(self) -> Saved:
        if self._url is None or self._visit is None:
            raise RuntimeError("save before reset")
        return Saved(page=await self._web.save_page(), url=self._url, visit=replace(self._visit))

    async def restore(self, saved: object) -> Observation:
        """Put the site's record back, then the page: in a visit of its own, whoever saved them."""
        assert isinstance(saved, Saved)
        if self._url is None:
            await self.reset(saved.visit.task, seed=0)
        assert self._url is not None
        self._visit = self._site.reopen_visit(self._url, saved.visit)
        return _relative(await self._web.restore_page(saved.page.moved(saved.url, self._url)))

    async def close(self) -> None:
        self._leave()
        await self._web.close()

    def _leave(self) -> None:
        if self._url is not None:
            self._site.close_visit(self._url)
        self._url = self._visit = None


def _relative(observation: Observation) -> Observation:
    """With the URL behind the visit's root, which differs from visit to visit."""
    url = observation.url
    return observation.model_copy(update={"url": view_url(url) if "/v/" in url else url})
