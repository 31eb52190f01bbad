"""All settings of the browser."""

from pathlib import Path

from pydantic import Field

from bestofq.core.noun import Noun


class BrowserConfig(Noun):
    """How Chromium is started, and the limits of every call to it."""

    headless: bool = True
    executable: Path | None = Field(default=None, description="a Chromium; None: found (see chromium.find_chromium)")
    width: int = Field(default=1280, ge=64, description="viewport, CSS pixels")
    height: int = Field(default=720, ge=64, description="viewport, CSS pixels")
    device_scale_factor: float = Field(default=1.0, gt=0, le=4, description="screenshot pixels per CSS pixel")
    deadline: float = Field(default=15.0, gt=0, description="seconds any one call to the browser may take")
    navigation: float = Field(default=12.0, gt=0, description="seconds a page may take until its DOM is there")
    quiet: float = Field(default=0.025, gt=0, description="seconds without a mutation after which a page is settled")
    settle: float = Field(default=1.0, gt=0, description="seconds to wait at most for a restless page")
    text_limit: int = Field(default=20_000, ge=100, description="characters of an observation's text")
    jpeg_quality: int = Field(default=70, ge=1, le=100)
    sandbox: bool | None = Field(
        default=None, description="Chromium's own; None: on, except for root, who cannot have it"
    )
    host_resolver_rules: str = Field(default="", description="Chromium's, such as `MAP shop.test 127.0.0.1`")
    arguments: tuple[str, ...] = Field(default=(), description="more command line switches for Chromium")
    spare: int = Field(default=16, ge=0, description="pages kept for the next episode; more are closed")
