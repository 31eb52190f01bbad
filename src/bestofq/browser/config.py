"""All settings of the browser."""

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE


class BrowserConfig(FrozenModel):
    """How Chromium is started, and the limits of every call to it."""

    deadline: ClassVar[float] = 15.0
    """Seconds that a call to the browser may take."""
    navigation: ClassVar[float] = 12.0
    """Seconds that a page may take until its DOM is there."""
    quiet: ClassVar[float] = 0.025
    """Seconds without a mutation after which a page is settled."""
    settle: ClassVar[float] = 1.0
    """Seconds to wait at most for a restless page."""
    text_limit: ClassVar[int] = 20_000
    """Characters of an observation's text."""
    jpeg_quality: ClassVar[int] = 70
    spare: ClassVar[int] = 16
    """Pages kept for next episodes."""

    headless: Annotated[bool, FREE] = Field(default=True, description="without a window")
    executable: Annotated[Path | None, FREE] = Field(
        default=None, description="a Chromium. Default: found (see `chromium.find_chromium`)"
    )
    cdp: Annotated[str | None, FREE] = Field(
        default=None,
        description="address of a browser that runs already, by its DevTools: http://127.0.0.1:9222 or wss://…; it "
        "keeps running, and what it was started with stays; a secret in it stays in the environment as $NAME",
    )
    width: int = Field(default=1280, ge=64, description="viewport, CSS pixels")
    height: int = Field(default=720, ge=64, description="viewport, CSS pixels")
    locale: str = Field(default="en-US", description="language that sites are asked for, and of numbers and dates")
    storage: Annotated[Path | None, FREE] = Field(
        default=None,
        description="cookies and logins that each episode begins with, a file of Playwright's storage_state",
    )
    proxy: Annotated[str | None, FREE] = Field(
        default=None, description="server that all is fetched through; only where every host is allowed"
    )
    arguments: Annotated[tuple[str, ...], FREE] = Field(default=(), description="more switches for Chromium")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.executable and self.cdp:
            raise ValueError("executable and cdp each name a browser: give one of them")
        return self
