"""What the settings of every suite have in common."""

from typing import Annotated, ClassVar, Final

from pydantic import Field, JsonValue

from bestofq.browser.config import BrowserConfig
from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE, identity_of

SELECTS: Final = "selects"  # marks a setting that chooses among a suite's tasks and changes none of them
NAME = "the benchmark (`bestofq tasks -h` names them), an installed package's, or `my_package.my_module:make_suite`"


class SuiteSettings(FrozenModel):
    name: str = Field(description=NAME)
    only: Annotated[str, SELECTS] = Field(default="*", description="globs of task ids; commas between them")
    train_tasks: Annotated[int, FREE] = Field(default=800, ge=1, description="training tasks, at most")
    step_limit: Annotated[int | None, FREE] = Field(default=None, ge=1, description="Default: the suite's")
    screenshots: Annotated[bool, FREE] = Field(default=False, description="pictures for models, judges and the store")
    browser: BrowserConfig = BrowserConfig()
    concurrency: Annotated[int | None, FREE] = Field(default=None, ge=1, description="Default: text 128, browser 16")

    eval_tasks: ClassVar[int | None] = 200  # tasks of an evaluation by default; None: all
    groups: ClassVar[str | None] = None
    """The name of the part of a task's id before `/` or `--`, if a table by it is useful."""

    taught: ClassVar[str | None] = None
    """The shipped model that was taught the suite's pages, as the command line names it."""

    @property
    def in_browser(self) -> bool:
        return True

    @property
    def at_once(self) -> int:
        return self.concurrency or (16 if self.in_browser else 128)

    def identity(self) -> dict[str, JsonValue]:
        """What an episode of a task depends on, except the step limit."""
        left_out = self._selecting_fields() | (set() if self.in_browser else {"browser"})
        return {name: value for name, value in identity_of(self).items() if name not in left_out}

    def selection(self) -> dict[str, JsonValue]:
        return self.model_dump(mode="json", include=self._selecting_fields())

    @classmethod
    def _selecting_fields(cls) -> set[str]:
        return {name for name, field in cls.model_fields.items() if SELECTS in field.metadata}


class OwnSuiteSettings(SuiteSettings, extra="allow"):
    """Of a suite of your own, `my_package.my_module:make_suite`, called with this table and your own fields."""
