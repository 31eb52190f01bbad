"""Settings of MiniWoB++, and its tasks that training leaves out (`tasks.toml`)."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bestofq.browser.config import InstantConfig
from bestofq.envs.settings import NAME, SELECTS, SuiteSettings

Families = Literal["all", "seen", "held-out"]

HELD_OUT: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("tasks.toml").read_text("utf-8"))
APART = frozenset(name for family in HELD_OUT.values() for name in family)


class MiniWobBrowser(InstantConfig):
    """A task is 160 x 210 CSS pixels, a flight site 540 x 667."""

    width: int = Field(default=640, ge=64, description="viewport, CSS pixels")


class MiniWobSettings(SuiteSettings):
    name: Literal["miniwob"] = Field(default="miniwob", description=NAME)
    only: Annotated[str, SELECTS] = Field(default="*", description="globs of task names; commas between them")
    data: Path | None = Field(default=None, description="html folder. Default: the package's")
    per_task: Annotated[int, SELECTS] = Field(default=5, ge=1, description="problems of each task, by seed")
    browser: MiniWobBrowser = MiniWobBrowser()
    families: Annotated[Families, SELECTS] = Field(default="all", description="all, seen in training, or held-out")

    groups: ClassVar[str | None] = "task"
    taught: ClassVar[str | None] = "pocket-web"
