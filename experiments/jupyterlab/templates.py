"""The tasks of `templates.toml` with their parameters, and when the server holds what a task asks for."""

import json
import random
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Split

TEMPLATES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("templates.toml").read_text("utf-8")
)
WORDS: Mapping[Split, str] = {  # no split has a word of another
    "train": "apple birch cedar delta ember flint grove heron iris jade kelp lotus maple north otter pearl",
    "dev": "quartz raven slate topaz umber violet walnut xenon",
    "test": "amber bison coral dune elm fjord ginger hazel ivory juniper kiwi lemon moss nutmeg olive poppy",
}
Cell = tuple[str, str, str]
"""Type, source and text output. The source `*` is any that is not the output itself."""
Files = Mapping[str, str | tuple[Cell, ...]]
"""Path → text or cells. A folder's path ends with `/`."""


class World(FrozenModel):
    """What the server's contents, sessions and settings APIs say."""

    files: Files = Field(default_factory=dict)
    sessions: frozenset[str] = frozenset()  # paths with a kernel
    settings: Mapping[str, Any] = Field(default_factory=dict)  # `plugin:key` → value that is not the default


class Problem(FrozenModel):
    """A template with its parameters, as `templates.toml` says."""

    goal: str
    script: Sequence[str]
    before: Files = Field(default_factory=dict)
    sessions_before: frozenset[str] = frozenset()
    after: Files | None = None
    holds: str | None = None
    sessions: frozenset[str] | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    held_out: bool = False

    def is_done(self, world: World) -> bool:
        """Whether the server holds what the goal asks for, and nothing else where `after` or `sessions` says all."""
        return (
            (self.after is None or _same_files(self.after, world.files))
            and (self.holds is None or self.holds in world.files)
            and (self.sessions is None or self.sessions == world.sessions)
            and all(world.settings.get(name) == value for name, value in self.settings.items())
        )


def _same_files(wanted: Files, files: Files) -> bool:
    folders = {f"{path.rpartition('/')[0]}/" for path in wanted if "/" in path.rstrip("/")}
    return {*wanted, *folders} == files.keys() and all(_same(wanted[path], files[path]) for path in wanted)


def _same(wanted: str | tuple[Cell, ...], there: str | tuple[Cell, ...]) -> bool:
    """Texts except white space at their ends; cells one by one."""
    if isinstance(wanted, str) or isinstance(there, str):
        return isinstance(wanted, str) and isinstance(there, str) and wanted.strip() == there.strip()
    return len(wanted) == len(there) and all(
        a[::2] == b[::2] and (b[1] != b[2] if a[1] == "*" else a[1] == b[1]) for a, b in zip(wanted, there, strict=True)
    )


@lru_cache(4096)
def make_problem(task: str) -> Problem:
    """The problem of a task's id, `template/split-number`: the same every time."""
    template, split = task.split("/")
    rng = random.Random(task)
    a, b, c, d = rng.sample(WORDS[split.partition("-")[0]].split(), 4)  # type: ignore[index]
    (m, n), (x, y) = rng.sample(range(12, 99), 2), rng.sample([a, b], 2)
    text = Template(json.dumps(TEMPLATES[template]))
    return Problem.model_validate_json(text.substitute(a=a, b=b, c=c, d=d, m=m, n=n, p=m * n, x=x, y=y))
