"""What a model wrote as a task, and whether it may be one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from bestofq.core.frozen import FrozenModel
from bestofq.envs.webvoyager.dates import dates
from bestofq.envs.webvoyager.source import is_address
from experiments.new_tasks.similarity import Known

Why = Literal["malformed", "elsewhere", "past", "overlapping", "repeated"]
SHORTEST, LONGEST = 15, 600  # characters; WebVoyager's own have 25 to 489
_HOST = re.compile(
    r"\b(?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|info|io|travel|co|uk|de|fr|es|it|nl|eu|ca|au|in|jp)\b", re.I
)


class ScreenedSite(FrozenModel):
    """Where new tasks are to be done."""

    name: str = Field(min_length=1, description="the domain: its tasks' ids begin with it")
    url: str = Field(description="start URL")

    @model_validator(mode="after")
    def _can_be_opened(self) -> Self:
        if not is_address(self.url):
            raise ValueError(f"the address of {self.name} is {self.url!r}: it must begin with http:// or https://")
        return self


class Refusal(NamedTuple):
    """Why something is not taken, in a word and in several; `near` is the key of the task it repeats or overlaps."""

    why: Why
    said: str
    near: str = ""


@dataclass(frozen=True)
class Screen:
    """What may be no task, and why."""

    held_out: Known
    accepted: Known  # so far
    others: Sequence[str]  # names of sites, that only their own tasks may hold
    near: float  # the similarity that is too much
    today: date

    def refusal(self, text: str, site: ScreenedSite) -> Refusal | None:
        """None when the text may be a task of the site."""
        if not SHORTEST <= len(text) <= LONGEST:
            return Refusal("malformed", f"{len(text)} characters, not {SHORTEST} to {LONGEST}")
        if other := self._other_site(text, site):
            return Refusal("elsewhere", f"names {other}")
        if past := [words for words, last in dates(text) if last < self.today]:
            return Refusal("past", f"names {past[0]}")
        if (near := self.held_out.nearest(text, site.name)).similarity >= self.near:
            return Refusal("overlapping", f"{near.similarity:.2f} like the held-out task {near.key}", near.key)
        if (near := self.accepted.nearest(text, site.name)).similarity >= self.near:
            return Refusal("repeated", f"{near.similarity:.2f} like the accepted task {near.key}", near.key)
        return None

    def _other_site(self, text: str, site: ScreenedSite) -> str:
        own = (urlsplit(site.url).hostname or "").removeprefix("www.")
        for host in (found.group().lower().removeprefix("www.") for found in _HOST.finditer(text)):
            if host != own and not host.endswith(f".{own}"):
                return host
        text = re.sub(re.escape(site.name), " ", text, flags=re.I)
        names = (name for name in self.others if name != site.name)
        return next((name for name in names if re.search(rf"\b{re.escape(name)}s?\b", text, re.I)), "")
