"""What the settings of our sites have in common."""

from typing import ClassVar, Literal

from pydantic import Field

from bestofq.browser.config import InstantConfig
from bestofq.envs.settings import SuiteSettings


class LocalSiteSettings(SuiteSettings):
    """Of a site that can be played without a browser."""

    seed: int = Field(default=2026, description="of what the site is made from, and of the splits")
    env: Literal["text", "browser"] = Field(default="text", description="its pages as text, or in Chromium")
    browser: InstantConfig = InstantConfig()

    rules: ClassVar[str]
    """What makes the site's `rules.Rules` from these settings: `module:object`."""

    @property
    def in_browser(self) -> bool:
        return self.env == "browser"
