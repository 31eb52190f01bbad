"""All settings of the browser."""

from pathlib import Path
from typing import Annotated, Self
from zoneinfo import available_timezones

from pydantic import Field, model_validator

from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE


class BrowserConfig(FrozenModel):
    """How Chromium is started, and the limits of every call to it."""

    headless: Annotated[bool, FREE] = Field(default=True, description="without a window")
    executable: Annotated[Path | None, FREE] = Field(
        default=None, description="a Chromium. Default: found (see `chromium.find_chromium`)"
    )
    channel: Annotated[str | None, FREE] = Field(
        default=None, description="an installed browser that Playwright knows: chrome, msedge, chromium, …"
    )
    cdp: Annotated[str | None, FREE] = Field(
        default=None,
        description="address of a browser that runs already, by its DevTools: http://127.0.0.1:9222 or wss://…; it "
        "keeps running, and what it was started with stays; a secret in it stays in the environment as $NAME",
    )
    width: int = Field(default=1280, ge=64, description="viewport, CSS pixels")
    height: int = Field(default=720, ge=64, description="viewport, CSS pixels")
    device_scale_factor: float = Field(default=1.0, gt=0, le=4, description="screenshot pixels per CSS pixel")
    user_agent: str | None = Field(default=None, description="what sites are told. Default: the browser's own")
    locale: str = Field(default="en-US", description="language that sites are asked for, and of numbers and dates")
    timezone: str | None = Field(default=None, description="such as Europe/Berlin. Default: the machine's")
    storage: Annotated[Path | None, FREE] = Field(
        default=None,
        description="cookies and logins that each episode begins with, a file of Playwright's storage_state",
    )
    proxy: Annotated[str | None, FREE] = Field(
        default=None, description="server that all is fetched through; only where every host is allowed"
    )
    deadline: Annotated[float, FREE] = Field(default=15.0, gt=0, description="seconds a call to the browser may take")
    navigation: float = Field(default=12.0, gt=0, description="seconds a page may take until its DOM is there")
    quiet: float = Field(default=0.025, gt=0, description="seconds without a mutation after which a page is settled")
    settle: float = Field(default=1.0, gt=0, description="seconds to wait at most for a restless page")
    text_limit: int = Field(default=20_000, ge=100, description="characters of an observation's text")
    jpeg_quality: int = Field(default=70, ge=1, le=100, description="of screenshots")
    sandbox: Annotated[bool | None, FREE] = Field(
        default=None, description="Chromium's own. Default: on, except for root, who cannot have it"
    )
    host_resolver_rules: Annotated[str, FREE] = Field(default="", description="such as `MAP shop.test 127.0.0.1`")
    arguments: Annotated[tuple[str, ...], FREE] = Field(default=(), description="more switches for Chromium")
    spare: Annotated[int, FREE] = Field(default=16, ge=0, description="pages kept for next episodes; more are closed")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        given = [name for name in ("executable", "channel", "cdp") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} each name a browser: give one of them")
        if self.timezone and (known := available_timezones()) and self.timezone not in known:
            raise ValueError(f"{self.timezone} is no time zone: write one such as Europe/Berlin")
        return self
