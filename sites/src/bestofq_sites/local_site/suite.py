"""A local site as a suite, played as text or in a real Chromium."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, cast

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.loading import call_object
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.settings import SuiteSettings
from bestofq_sites.local_site.rules import Rules
from bestofq_sites.local_site.server import serve
from bestofq_sites.local_site.settings import LocalSiteSettings
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.local_site.web import LocalWebEnv


@lru_cache(4)
def _rules(settings: LocalSiteSettings) -> Rules[Any, Any, Any]:
    """They never change and can take most of a second to make: the suites of one site share them."""
    return cast(Rules[Any, Any, Any], call_object(settings.rules, settings))


class LocalSuite:
    """`core.protocols.Suite` over the rules of a site. Irreversible actions harm nobody there."""

    sandboxed = True
    needs_judge = False
    judge = None

    def __init__(self, settings: LocalSiteSettings) -> None:
        """Raises what the site's rules raise where they cannot be made from these settings."""
        self.rules = _rules(type(settings)(**settings.model_dump(exclude={*SuiteSettings.model_fields, "env"})))
        self.name = self.rules.name
        self.step_limit = self.rules.step_limit
        self._settings = settings

    async def tasks(self, split: Split) -> Sequence[Task]:
        return self.rules.tasks(split)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        if not self._settings.in_browser:

            async def make_text() -> Env:
                return TextEnv(self.rules)

            yield make_text
            return
        async with Browser.launch(self._settings.browser) as browser, serve(self.rules) as site:

            async def make_web() -> Env:
                return LocalWebEnv(site, browser, screenshots=self._settings.screenshots)

            yield make_web

    def irreversible(self, observation: Observation, action: Action) -> bool:
        return self.rules.irreversible(observation, action)
