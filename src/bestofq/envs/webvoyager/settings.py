"""Settings of WebVoyager."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bestofq.core.identity import FREE
from bestofq.envs.settings import NAME, SuiteSettings

Allow = Literal["task", "any"] | tuple[str, ...]


class WebVoyagerSettings(SuiteSettings):
    name: Literal["webvoyager"] = Field(default="webvoyager", description=NAME)
    data: Path | None = Field(default=None, description="the jsonl file")
    seed: int = Field(default=2026, description="of the order of tasks and of the splits")
    holdout: bool = Field(default=False, description="split by task; the paper uses all for all (4.1)")
    allow: Allow = Field(
        default="task",
        description="hosts that an episode reaches: task: its site and that site's companions; any: every host; a list "
        "(`host`, `host:port`, `*.host`): these and the task's",
    )
    screenshots: Annotated[bool, FREE] = Field(default=True, description="pictures for models, judges and the store")

    eval_tasks: ClassVar[int | None] = None  # all (4.1)
    groups: ClassVar[str | None] = "domain"
