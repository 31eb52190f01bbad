"""WebShop in a real browser: Chromium visits the site; the reward comes from the site's own records."""

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.decision import StepResult
from bestofq.core.observation import Observation, Task
from bestofq.envs.web import WebEnv
from bestofq.envs.webshop.site import Site, Visit, view_url


class WebShopEnv:
    """`Env` over a `Site` and a `Browser`. What an agent reads is word for word what `text.TextEnv` shows."""

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
