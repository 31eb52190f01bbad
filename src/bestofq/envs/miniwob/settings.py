"""Settings of MiniWoB++, and which of its tasks are kept out of training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bestofq.envs.settings import SELECTS, SuiteSettings

Families = Literal["all", "seen", "held-out"]

HELD_OUT: Mapping[str, tuple[str, ...]] = {
    "click-dialog": ("click-dialog", "click-dialog-2"),
    "click-option": ("click-option",),
    "enter-password": ("enter-password",),
    "focus-text": ("focus-text", "focus-text-2"),
    "multi": ("multi-layouts", "multi-orderings"),
    "read-table": ("read-table", "read-table-2"),
    "unicode-test": ("unicode-test",),
}
"""Families of tasks that the train split never holds: who trains on it can be measured on kinds it never saw."""
APART = frozenset(name for family in HELD_OUT.values() for name in family)


class MiniWobSettings(SuiteSettings):
    name: Literal["miniwob"] = "miniwob"
    only: Annotated[str, SELECTS] = Field(default="*", description="globs of task names; commas between them")
    data: Path | None = Field(default=None, description="html folder; none: the package's")
    per_task: Annotated[int, SELECTS] = Field(default=5, ge=1, description="problems of each task, by seed")
    families: Annotated[Families, SELECTS] = Field(default="all", description="all, seen in training, or held-out")

    groups: ClassVar[str | None] = "task"
