"""All settings of the browser."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE

TEXT_LIMIT = 20_000  # characters of an observation's text
JPEG_QUALITY = 70
_SETTLE = "patient: wait for all that an act or a load began; instant: for pages that answer at once"


class BrowserConfig(FrozenModel):
    """How Chromium is started, and the limits of every call to it."""

    deadline: ClassVar[float] = 15.0
    """Seconds that any one call to the browser may take, or `load_patience` if that is longer."""

    headless: Annotated[bool, FREE] = Field(default=True, description="without a window")
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
    settle: Literal["patient", "instant"] = Field(default="patient", description=_SETTLE)
    patience: float = Field(default=3.0, gt=0, description="seconds to wait at most for a page's answer to an act")
    load_patience: float = Field(default=10.0, gt=0, description="seconds to wait at most for a new page")
    uploads: Annotated[Path | None, FREE] = Field(
        default=None, description="folder whose files may be uploaded. Default: none may"
    )
    arguments: Annotated[tuple[str, ...], FREE] = Field(default=(), description="more switches for Chromium")


class InstantConfig(BrowserConfig):
    """For the pages of suites that answer at once."""

    settle: Literal["patient", "instant"] = Field(default="instant", description=_SETTLE)
