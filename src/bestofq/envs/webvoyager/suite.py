"""WebVoyager as a suite of tasks. They run in `WebEnv`, and a judge decides on them.

A file has a task a line, `{"web_name": …, "id": …, "ques": …, "web": …}`. The published list has 643 tasks, the patched
one that the paper uses 590 (Best-of-Q, 4.1). Neither is part of this package.
"""

import hashlib
import re
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError

from bestofq.browser.browser import Browser
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.frozen import FrozenModel, reason_of
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.splits import split_of
from bestofq.envs.web import WebEnv
from bestofq.envs.webvoyager.settings import Allow, WebVoyagerSettings

COMPANIONS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("hosts.toml").read_text("utf-8"))
"""Hosts of a site's pictures and scripts, as publicly known, not checked against the live sites. The guard holds every
connection, not only pages: if a page stays bare, allow what is missing."""
SEARCH_ENGINES = frozenset({"Google Search", "Bing Search"})
"""Domains whose tasks lead to any site: they are held to no host."""
_ADDRESS = re.compile(r"[\d.]+|.*:.*")  # IPv4 or IPv6


def _check_address(text: str) -> str:
    """Return an address that a browser can begin at. ValueError without http or https, or without a host."""
    address = urlsplit(text)
    if address.scheme not in ("http", "https") or address.hostname is None:
        raise ValueError(f"{text!r} must be an address with http:// or https://")
    return text


class Entry(FrozenModel, extra="ignore"):
    """A line of the file; its fields have the file's names."""

    web_name: str = Field(min_length=1, description="the domain, as in Tables 5 to 8")
    id: str = Field(min_length=1)
    ques: str = Field(min_length=1)
    web: Annotated[str, AfterValidator(_check_address)] = Field(description="start URL")

    @property
    def key(self) -> str:
        """`Allrecipes--0`: the id as published, after the domain."""
        return self.id if self.id.startswith(f"{self.web_name}--") else f"{self.web_name}--{self.id}"


@dataclass(eq=False)
class WebVoyager:
    """`core.protocols.Suite` of the settings' file, on the open web.

    The paper collects, trains and evaluates on the same tasks (4.1, 4.2): with `holdout` False every split is all of
    them. With `holdout` each task belongs to train, dev or test (0.6, 0.2, 0.2) by a hash of its id. The split is the
    same in the lists of 643 and of 590 tasks. Every domain has these shares in expectation.
    """

    settings: WebVoyagerSettings

    name = "webvoyager"
    step_limit = 30  # Best-of-Q, appendix K
    sandboxed = False
    needs_judge = True
    judge = None

    @cached_property
    def _entries(self) -> list[Entry]:
        data, seed = self.settings.data, self.settings.seed
        if data is None:
            raise ConfigError("WebVoyager's tasks come from a jsonl file of yours: name it with --data FILE")
        return sorted(load_entries(data), key=lambda e: hashlib.sha256(f"{seed}-{e.key}".encode()).digest())

    def list_tasks(self, split: Split = "test") -> list[Task]:
        """In a fixed shuffled order. ConfigError without a file, DataError if it cannot be read."""
        chosen = self.settings
        return [
            Task(
                id=entry.key,
                suite=self.name,
                goal=entry.ques,
                start_url=entry.web,
                split=split,
                group=urlsplit(entry.web).hostname,
                allowed_hosts=allowed_hosts(entry.web_name, entry.web, chosen.allow),
            )
            for entry in self._entries
            if not chosen.holdout or split_of(entry.key, chosen.seed) == split
        ]

    async def tasks(self, split: Split) -> Sequence[Task]:
        return self.list_tasks(split)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        async with Browser.launch(self.settings.browser) as browser:

            async def make_env() -> Env:
                return WebEnv(browser, screenshots=self.settings.screenshots)

            yield make_env


def allowed_hosts(domain: str, start_url: str, allow: Allow = "task") -> tuple[str, ...]:
    """The start URL's host without `www.`, all below it, its companions, and those of a list. Empty: any host, also for
    search engines.

    There is no list of public suffixes here, so only `www.` is cut off. A task on `dictionary.cambridge.org` may not
    reach all of `cambridge.org` unless a companion allows it.
    """
    if domain in SEARCH_ENGINES or allow == "any":
        return ()
    host = urlsplit(start_url).hostname or ""
    if _ADDRESS.fullmatch(host):
        own: tuple[str, ...] = (f"[{host}]" if ":" in host else host,)
    else:
        host = host.removeprefix("www.")
        own = (host, f"*.{host}", *COMPANIONS.get(host, ()))
    return own if allow == "task" else tuple(dict.fromkeys((*own, *allow)))


def load_entries(path: Path) -> list[Entry]:
    """The tasks of a file, in its order, without blank lines. DataError with the line and what is wrong."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path} ({error}): give one of WebVoyager's files") from error
    found: list[Entry] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            raise DataError(f"{path}, line {number}: {reason_of(error)}") from error
        if entry.key in line_of:
            raise DataError(f"{path}, line {number}: the id {entry.key!r} is in line {line_of[entry.key]} already")
        line_of[entry.key] = number
        found.append(entry)
    if not found:
        raise DataError(f"{path} holds 0 tasks, at least 1 is needed: give WebVoyager's jsonl file")
    return found
