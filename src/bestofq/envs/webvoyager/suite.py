"""WebVoyager as a suite of tasks: `WebEnv` plays them, a judge says how they ended."""

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from bestofq.browser.browser import Browser
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Split, Task
from bestofq.core.protocols import Env, EnvFactory
from bestofq.envs.splits import split_of
from bestofq.envs.web import WebEnv
from bestofq.envs.webvoyager.dates import stale
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.source import Entry, load_entries

SUITE = "webvoyager"
STEP_LIMIT = 30  # Best-of-Q, appendix K
RUNS = 3  # Best-of-Q, 4.1
COMPANIONS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("hosts.toml").read_text("utf-8"))
"""Names that a site's pictures and scripts come from, as publicly known, not checked against the live sites. The guard
holds every connection, not only pages: where a page stays bare, give what is missing as an extra host."""
SEARCH_ENGINES = frozenset({"Google Search", "Bing Search"})
"""Domains whose tasks lead to any site of the web: they are held to no host."""
_ADDRESS = re.compile(r"[\d.]+|.*:.*")  # IPv4 or IPv6


class WebVoyager:
    """The tasks of one file.

    The paper collects, trains and evaluates on the same tasks (4.1, 4.2): with `holdout` False every split is all of
    them. With `holdout` each task belongs to train, dev or test (0.6, 0.2, 0.2) by a hash of its id, independent of
    all others: the same in the list of 643 and in that of 590, and in expectation the same shares in every domain.
    """

    name = SUITE

    def __init__(
        self, entries: Iterable[Entry], *, holdout: bool = False, seed: int = 0, hosts: Sequence[str] = ()
    ) -> None:
        """`hosts`: allowed besides each task's own (`host`, `host:port`, `*.host`)."""
        self._entries = sorted(entries, key=lambda entry: hashlib.sha256(f"{seed}-{entry.key}".encode()).digest())
        self._holdout = holdout
        self._seed = seed
        self._hosts = tuple(hosts)

    @classmethod
    def load(cls, path: Path, *, holdout: bool = False, seed: int = 0, hosts: Sequence[str] = ()) -> Self:
        """The suite of a jsonl file. DataError with the line and what is wrong in it."""
        return cls(load_entries(path), holdout=holdout, seed=seed, hosts=hosts)

    def tasks(self, split: Split = "test", limit: int | None = None) -> list[Task]:
        """The tasks of a split in a fixed shuffled order, so that the first k are a fair sample."""
        chosen = [e for e in self._entries if not self._holdout or split_of(e.key, self._seed) == split]
        return [self._task(entry, split) for entry in chosen[:limit]]

    def domains(self) -> dict[str, int]:
        """How many tasks each domain has (Table 5), by name."""
        return dict(sorted(Counter(entry.web_name for entry in self._entries).items()))

    def _task(self, entry: Entry, split: Split) -> Task:
        return Task(
            id=entry.key,
            suite=self.name,
            goal=entry.ques,
            start_url=entry.web,
            split=split,
            allowed_hosts=allowed_hosts(entry.web_name, entry.web, self._hosts),
        )


class WebVoyagerSuite:
    """`core.protocols.Suite` of the settings' file, on the open web."""

    name = SUITE
    step_limit = STEP_LIMIT
    sandboxed = False
    needs_judge = True
    judge = None

    def __init__(self, settings: WebVoyagerSettings) -> None:
        self._settings = settings

    @cached_property
    def listed(self) -> WebVoyager:
        """ConfigError without a file, DataError when it cannot be read."""
        chosen = self._settings
        if chosen.data is None:
            raise ConfigError("WebVoyager's tasks come from a jsonl file of yours: name it with --data FILE")
        return WebVoyager.load(chosen.data, holdout=chosen.holdout, seed=chosen.seed, hosts=chosen.hosts)

    async def tasks(self, split: Split) -> Sequence[Task]:
        return self.listed.tasks(split)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EnvFactory]:
        async with Browser.launch(self._settings.browser) as browser:

            async def make_env() -> Env:
                return WebEnv(browser, screenshots=self._settings.screenshots)

            yield make_env

    def warnings(self) -> Sequence[str]:
        """Which tasks cannot be done any more. Whether to run them is the user's to decide."""
        past = stale(self.listed.tasks(), date.today())
        some = ", ".join(entry.task.id for entry in past[:5])
        lists = f"`bestofq tasks webvoyager --data {self._settings.data}` lists them"
        return [f"{len(past)} tasks name a date that is past, {some}, …: {lists}."] if past else []


def allowed_hosts(domain: str, start_url: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """The start URL's host without `www.`, all below it, its companions, and `extra`; empty (any) for search engines.

    There is no list of public suffixes here, and so nothing is taken off a host but `www.`: a task on
    `dictionary.cambridge.org` may not reach the whole of `cambridge.org` unless a companion says so.
    """
    if domain in SEARCH_ENGINES:
        return ()
    host = urlsplit(start_url).hostname or ""
    if _ADDRESS.fullmatch(host):
        own: tuple[str, ...] = (f"[{host}]" if ":" in host else host,)
    else:
        host = host.removeprefix("www.")
        own = (host, f"*.{host}", *COMPANIONS.get(host, ()))
    return tuple(dict.fromkeys((*own, *extra)))
