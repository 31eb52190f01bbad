"""The sites: what every one of a kind has, and the quirks that each draws from the seed.

Each stage that can have a quirk gets one with the chance `quirky`: one of its two ways gets one of the stage's effects.
Nothing on the page shows it. The other way works as it should.

    dead     nothing happens, ever
    twice    nothing happens the first time
    loop     leads back to the search, and all that was chosen is gone
    forget   continues, but the colour or the day that was chosen is lost: the order is wrong
    refuse   continues, but the last page refuses the order and leads back to the search

At the search the two ways are the whole name and its last word alone. This rule was written down before any agent was
played on these sites.
"""

import random
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from bestofq.core.frozen import FrozenModel

Effect = Literal["dead", "twice", "loop", "forget", "refuse"]
WHOLE, WORD = 0, 1  # the ways to search
SEARCH = 1
"""The stage that loops lead back to."""


class Stage(FrozenModel):
    """A page of a kind of site. The stages of kind items and values show what the goal names; they have no quirks."""

    title: str
    text: str
    kind: Literal["fork", "search", "items", "values"] = "fork"
    ways: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()


class Kind(FrozenModel):
    name: str  # the second word of its sites' names
    goals: tuple[str, ...]
    firsts: tuple[str, ...]
    seconds: tuple[str, ...]
    values: tuple[str, ...]
    stages: tuple[Stage, ...]

    @property
    def items(self) -> list[str]:
        return [f"{first} {second}" for first, second in product(self.firsts, self.seconds)]


class Quirk(NamedTuple):
    way: int
    effect: Effect


class QuirkySite(FrozenModel):
    name: str
    kind: Kind
    shown: tuple[tuple[int, ...], ...]  # by stage, its ways in the order in which the pages show them
    quirks: Mapping[int, Quirk]  # by stage


_DATA: dict[str, Any] = tomllib.loads(files(__package__).joinpath("kinds.toml").read_text("utf-8"))
NAMES: tuple[str, ...] = tuple(_DATA.pop("names"))
KINDS: tuple[Kind, ...] = tuple(TypeAdapter(dict[str, Kind]).validate_python(_DATA).values())


@cache
def site(number: int, seed: int, quirky: float) -> QuirkySite:
    """A site by its number, from 0 to 47: even ones are shops."""
    rng = random.Random(f"site-{seed}-{number}")
    kind = KINDS[number % len(KINDS)]
    first = random.Random(f"names-{seed}").sample(NAMES, len(NAMES))[number]
    shown = tuple(tuple(rng.sample(range(len(stage.ways)), len(stage.ways))) for stage in kind.stages)
    drawn = {
        at: Quirk(rng.randrange(2), rng.choice(stage.effects))
        for at, stage in enumerate(kind.stages)
        if stage.effects and rng.random() < quirky
    }
    return QuirkySite(name=f"{first} {kind.name}", kind=kind, shown=shown, quirks=drawn)
