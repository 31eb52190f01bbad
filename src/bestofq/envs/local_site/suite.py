"""A local site as a suite, played as text or in a real Chromium."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic

from bestofq.browser.browser import Browser
from bestofq.core.actions import Action
from bestofq.core.observation import Observation, Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.local_site.rules import Rules, ViewT, VisitT
from bestofq.envs.local_site.server import serve
from bestofq.envs.local_site.text import TextEnv
from bestofq.envs.local_site.web import LocalWebEnv
from bestofq.envs.settings import LocalSiteSettings


class LocalSuite(Generic[VisitT, ViewT]):
    """`core.protocols.Suite` over the rules of a site. Irreversible actions harm nobody there."""

    sandboxed = True
    needs_judge = False
    judge = None

    def __init__(self, rules: Rules[VisitT, ViewT], settings: LocalSiteSettings, *, step_limit: int) -> None:
        self.rules = rules
        self.name = rules.name
        self.step_limit = step_limit
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
        async with Browser.launch() as browser, serve(self.rules) as site:

            async def make_web() -> Env:
                return LocalWebEnv(site, browser, screenshots=self._settings.screenshots)

            yield make_web

    def irreversible(self, observation: Observation, action: Action) -> bool:
        return self.rules.irreversible(observation, action)
